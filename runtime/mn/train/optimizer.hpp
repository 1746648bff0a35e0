/// The multi-node optimizer: a torch optimizer that steps on the mean gradient over all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include <mn/comm/communicator.hpp>
#include <mn/train/gradient_reduction.hpp>

namespace mn {

/// Called with the parameters after their gradients became the mean and before the update. May change the gradients in
/// place, and must do so alike on every rank.
using GradientHook = std::function<void(const std::vector<at::Tensor>& parameters)>;

/// Owns a torch optimizer and is not one: learning-rate schedulers take actual().
///
/// Gradients live in one flat buffer that the parameters' grad() tensors view; backward accumulates into it and the
/// reduction works on it in place. All calls but the accessors are collective: every rank makes them in the same order.
class MultiNodeOptimizer {
 public:
  /// Broadcasts rank 0's parameters to all ranks.
  MultiNodeOptimizer(std::unique_ptr<torch::optim::Optimizer> actual, std::shared_ptr<Communicator> comm,
                     const ReductionOptions& options = {});

  /// Zeroes the flat gradient buffer and attaches the views that were lost (libtorch's zero_grad and
  /// model->zero_grad() detach them; step() copes with that too, at the price of a copy).
  void zero_grad();

  /// Mean of gradients over ranks → hooks → update. All ranks weigh the same.
  void step();
  /// The same with this rank's gradient, a mean over `samples` samples, weighed by them: Σ nᵢgᵢ / Σ nᵢ. 0 is a rank
  /// that had none. If all ranks pass 0, nothing is updated.
  ///
  /// A parameter whose gradient is None counts as zero where another rank has one, and is left alone by the update
  /// where no rank has. When the parameter set changed since the last call (on every rank), the parameters are
  /// broadcast again first.
  void step(std::int64_t samples);

  /// While the result lives, backward only accumulates and nothing is sent: for all but the last backward of a step.
  /// Saves traffic with overlap; changes no result.
  [[nodiscard]] std::shared_ptr<void> no_sync();

  /// Hooks run in the order added. A name in use is an ArgumentError.
  void add_hook(const std::string& name, GradientHook hook);
  void remove_hook(const std::string& name);

  /// What a checkpoint needs beside actual()'s own state.
  [[nodiscard]] nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

  [[nodiscard]] torch::optim::Optimizer& actual() noexcept { return *actual_; }
  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups() { return actual_->param_groups(); }
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const noexcept { return comm_; }
  /// Seconds that this rank spent in the reduction of gradients so far, waiting for others included.
  [[nodiscard]] double communication_s() const noexcept { return communication_s_; }
  /// Bytes of gradients that one step reduces.
  [[nodiscard]] std::size_t gradient_bytes() const noexcept { return reduction_->bytes(); }

 private:
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  void follow_parameter_set();
  void adopt(std::vector<at::Tensor> parameters);
  void step_weighted(double weight);

  std::unique_ptr<torch::optim::Optimizer> actual_;
  std::shared_ptr<Communicator> comm_;
  ReductionOptions options_;
  std::unique_ptr<GradientReduction> reduction_;
  std::vector<std::pair<std::string, GradientHook>> hooks_;
  std::int64_t nominal_samples_ = 0;  // agreed at the first weighed step; a rank with as many needs no scaling pass
  double communication_s_ = 0;
};

/// Collective. Wraps `actual`, as ChainerMN's function of the same name.
[[nodiscard]] std::unique_ptr<MultiNodeOptimizer> create_multi_node_optimizer(
    std::unique_ptr<torch::optim::Optimizer> actual, std::shared_ptr<Communicator> comm,
    const ReductionOptions& options = {});

/// Hook: adds rate × parameter to each gradient (Chainer's WeightDecay).
[[nodiscard]] GradientHook weight_decay(double rate);
/// Hook: scales all gradients so that their global L2 norm is at most `threshold` (Chainer's GradientClipping;
/// Pascanu et al. 2013, arXiv:1211.5063).
[[nodiscard]] GradientHook gradient_clipping(double threshold);

}  // namespace mn
