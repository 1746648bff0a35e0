/// The losses of jobs/exported, which compare the model's output with the targets.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/trainer/trainer.hpp>

#include "exported/options.hpp"

namespace mn::jobs {

/// The sizes of a tensor of a minibatch. An unknown size is −1.
using Shape = std::vector<std::int64_t>;

[[nodiscard]] bool is_known(const Shape& shape);
/// An unknown size matches any size.
[[nodiscard]] bool matches(const Shape& a, const Shape& b);

/// Returns the model's output as the loss. Throws ArgumentError unless the output is one number.
[[nodiscard]] Loss own_loss(const at::Tensor& output);
/// Called before training. Throws UsageError unless an output of this shape can be one number.
void check_own_loss(const Shape& output);

/// Called before training. Throws UsageError if --loss cannot compare an output of shape `output` with targets of shape
/// `target`, or if there are certainly two ways to compare them. `labels` is the number of classes of the targets, or 0
/// if this number is unknown.
void check_shapes(const ExportedOptions& options, const Shape& output, const Shape& target, std::int64_t labels);

/// Computes the loss that --loss names. With cross_entropy, also reports the accuracy; both are means over the targets
/// that cross_entropy does not ignore. Throws ArgumentError if output and target cannot be compared, or can be compared
/// in two ways. Throws DataError if a target is not a class of the output.
///
/// A target has the shape [N, d…]. The output may have the classes in dimension 1, as in
/// torch.nn.functional.cross_entropy ([N, C, d…]), or in the last dimension, as in language models ([N, d…, C]). The
/// output may also be a list of the scores of all targets ([N·d…, C]), and the target may be a mask with one channel
/// ([N, 1, d…]).
[[nodiscard]] Loss compare(const ExportedOptions& options, const at::Tensor& output, const at::Tensor& target,
                           Summary& report);

}  // namespace mn::jobs
