/// Finds, for each input of a model, the field of a sample that becomes this input.
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

/// Fields of a dataset, as indices in the dataset's spec.
struct Fields {
  std::vector<std::size_t> inputs;   ///< for each input of the model, the index of its field
  std::optional<std::size_t> label;  ///< the field of --target label
};

/// Finds a field for each input of the model, and the field that the option --label names. An option --input
/// INPUT=FIELD names an input's field. Without this option the input gets the field with its own name, or, if it is the
/// model's only input and no field has its name, the first field. Throws a UsageError or DataError that names the
/// input, the fields and, by `option`, the dataset.
[[nodiscard]] Fields match_fields(const std::string& option, const SampleSpec& spec,
                                  const std::vector<ExportedInput>& inputs, const ExportedOptions& options);

/// The shape that a sample must have for input `i` of the model; −1 means any size. With --target next, the sample for
/// the first input has one element more than the input takes, because the last element is only a target.
[[nodiscard]] Shape wanted_shape(const std::vector<ExportedInput>& inputs, std::size_t i,
                                 const ExportedOptions& options);

/// The shape of a minibatch's targets. The first size, the number of samples, is −1.
[[nodiscard]] Shape target_shape(const SampleSpec& spec, const Fields& fields, const ExportedOptions& options,
                                 const Shape& input);

/// The shape to which arrays of shape `shape` are changed for an input of shape `wanted`. The order of elements stays:
/// sizes of 1 are added or removed, and neighboring dimensions are merged or split. No value if this is not enough.
[[nodiscard]] std::optional<Shape> reshaped(const Shape& shape, const Shape& wanted);

}  // namespace mn::jobs
