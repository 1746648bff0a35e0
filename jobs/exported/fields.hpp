/// Finds the field of a sample for each input of a model.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <mn/data/sample_spec.hpp>
#include <mn/nn/exported_module.hpp>

#include "exported/loss.hpp"
#include "exported/options.hpp"

namespace mn::jobs {

/// Indices of fields in a dataset's spec.
struct Fields {
  std::vector<std::size_t> inputs;   ///< for each input of the model, its field
  std::optional<std::size_t> label;  ///< the field of --target label
};

/// Finds the fields by --input and --label. Without --input, an input takes the field with the input's name. If the
/// model has a single input and no field has its name, the input takes the first field. Errors name the dataset by
/// `option`. Throws UsageError or DataError that names the input and the fields.
[[nodiscard]] Fields match_fields(const std::string& option, const SampleSpec& spec,
                                  const std::vector<ExportedInput>& inputs, const ExportedOptions& options);

/// The shape of a sample for input `i` of the model; −1 is any size. With --target next, a sample for the first input
/// has one element more than the input takes, the last target.
[[nodiscard]] Shape wanted_shape(const std::vector<ExportedInput>& inputs, std::size_t i,
                                 const ExportedOptions& options);

/// The shape of a minibatch's targets, with −1 as the number of samples.
[[nodiscard]] Shape target_shape(const SampleSpec& spec, const Fields& fields, const ExportedOptions& options,
                                 const Shape& input);

/// The shape that arrays get for an input of shape `wanted`: sizes of 1 may come and go, and neighboring dimensions may
/// merge or split, which keeps the order of elements. No value if the shapes differ in any other way.
[[nodiscard]] std::optional<Shape> reshaped(const Shape& shape, const Shape& wanted);

}  // namespace mn::jobs
