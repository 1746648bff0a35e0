/// Which fields of the samples a model takes.
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

/// Positions in a dataset's spec.
struct Fields {
  std::vector<std::size_t> inputs;   ///< the field of each of the model's inputs
  std::optional<std::size_t> label;  ///< the field of --target label
};

/// As --input and --label say; else each input takes the field of its name, a single one the first field. Throws
/// UsageError or DataError of one line that names the input and the fields. `option` names the dataset.
[[nodiscard]] Fields match_fields(const std::string& option, const SampleSpec& spec,
                                  const std::vector<ExportedInput>& inputs, const ExportedOptions& options);

/// The shape that the model wants of a sample for an input; −1 is any size. With --target next the first input's
/// samples have one element more, the last target.
[[nodiscard]] Shape wanted_shape(const std::vector<ExportedInput>& inputs, std::size_t i,
                                 const ExportedOptions& options);

/// The shape of a minibatch's targets, with −1 for the samples.
[[nodiscard]] Shape target_shape(const SampleSpec& spec, const Fields& fields, const ExportedOptions& options,
                                 const Shape& input);

/// The shape that arrays of `shape` get for an input that wants `wanted`: the same, with dimensions of 1 more or less,
/// or with neighboring dimensions as one. No value for all others, whose elements would come in another order.
[[nodiscard]] std::optional<Shape> reshaped(const Shape& shape, const Shape& wanted);

}  // namespace mn::jobs
