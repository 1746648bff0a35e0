/// The losses of jobs/exported: comparisons of the model's output with the targets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/core/metric.hpp>
#include <mn/trainer/trainer.hpp>

#include "exported/options.hpp"

namespace mn::jobs {

/// Sizes of a minibatch's tensor; −1 for an unknown size.
using Shape = std::vector<std::int64_t>;

/// Whether all sizes of `shape` are known.
[[nodiscard]] bool is_known(const Shape& shape);
/// Whether two shapes are equal; an unknown size equals any size.
[[nodiscard]] bool matches(const Shape& a, const Shape& b);

/// Returns the model's output as the loss. Throws ArgumentError unless the output is one number.
[[nodiscard]] Loss own_loss(const at::Tensor& output);
/// A check before training: throws UsageError unless an output of this shape can be one number.
void check_own_loss(const Shape& output);

/// A check before training: throws UsageError if --loss cannot compare an output of shape `output` with targets of
/// shape `target` and of `labels` classes (0: unknown), or if the comparison is certainly ambiguous.
void check_shapes(const ExportedOptions& options, const Shape& output, const Shape& target, std::int64_t labels);

/// The loss of --loss; with cross_entropy, reports the accuracy, too. Both are means over the targets that
/// cross_entropy does not ignore. Throws ArgumentError if output and target cannot be compared or match in two ways,
/// and DataError for a target that is not a class of the output.
///
/// Classes lie in dimension 1, as in torch.nn.functional.cross_entropy ([N, C, d…] for a target of [N, d…]), or in the
/// last dimension, as in language models ([N, d…, C]). A target may also be a mask of one channel ([N, 1, d…]), and an
/// output the list of all targets' scores ([N·d…, C]).
[[nodiscard]] Loss compare(const ExportedOptions& options, const at::Tensor& output, const at::Tensor& target,
                           Summary& report);

}  // namespace mn::jobs
