/// Chooses the GradientReduction, the object that replaces gradients by their mean over ranks.
#pragma once

#include <memory>
#include <vector>

#include <mn/gradients/gradient_reduction.hpp>
#include <mn/gradients/optimizer_options.hpp>

namespace mn {

/// Collective: makes the reduction that `options` choose. The options must have passed check_options(). The option
/// local_steps is ignored.
[[nodiscard]] std::unique_ptr<GradientReduction> create_gradient_reduction(std::vector<at::Tensor> parameters,
                                                                           const SparseGradients::Flags& sparse,
                                                                           const std::shared_ptr<Communicator>& comm,
                                                                           const OptimizerOptions& options);

class ShardedParameters;
class StepWeights;
/// Collective: makes the reduction of sharded parameters.
[[nodiscard]] std::unique_ptr<GradientReduction> create_gradient_reduction(std::shared_ptr<ShardedParameters> shards,
                                                                           const std::shared_ptr<Communicator>& comm,
                                                                           const StepWeights& weights,
                                                                           const OptimizerOptions& options);

}  // namespace mn
