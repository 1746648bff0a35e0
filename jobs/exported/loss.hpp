/// How jobs/exported compares what the model returns with the targets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/core/metric.hpp>
#include <mn/trainer/trainer.hpp>

#include "exported/options.hpp"

namespace mn::jobs {

/// Sizes of a minibatch's tensor; −1 where a size is not known.
using Shape = std::vector<std::int64_t>;

/// Whether all its sizes are known.
[[nodiscard]] bool is_known(const Shape& shape);
/// Whether they are equal; a size that is not known equals any.
[[nodiscard]] bool matches(const Shape& a, const Shape& b);

/// The output as the loss. Throws ArgumentError unless it is one number.
[[nodiscard]] Loss own_loss(const at::Tensor& output);
/// Throws UsageError of one line unless an output of that shape can be one number: for a check before training.
void check_own_loss(const Shape& output);

/// Throws UsageError of one line if --loss can't compare an output of that shape with targets of that shape and of
/// `labels` classes (0: not known), or if it is sure to be ambiguous: for a check before training.
void check_shapes(const ExportedOptions& options, const Shape& output, const Shape& target, std::int64_t labels);

/// The loss; for classes it reports the part of the targets that has the best score. Both are means over the targets
/// that cross_entropy does not ignore. Throws ArgumentError if output and target can't be compared, or in two ways, and
/// DataError for a target that is not a class of the output.
///
/// Classes lie in dimension 1, as torch.nn.functional.cross_entropy has it ([N, C, d…] for a target of [N, d…]), or in
/// the last one, as language models have it ([N, d…, C]). A target may also be a mask of one channel ([N, 1, d…]), and
/// an output the list of all targets' scores ([N·d…, C]).
[[nodiscard]] Loss compare(const ExportedOptions& options, const at::Tensor& output, const at::Tensor& target,
                           Summary& report);

}  // namespace mn::jobs
