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
#include <mn/train/local_sgd.hpp>

namespace mn {

/// Called with the parameters after their gradients became the mean and before the update. May change the gradients in
/// place, and must do so alike on every rank.
using GradientHook = std::function<void(const std::vector<at::Tensor>& parameters)>;

/// Owns a torch optimizer and is not one: learning-rate schedulers take actual(). How the ranks train together is up to
/// OptimizerOptions; what is said of step() here is the default.
///
/// Gradients live in one flat buffer that the parameters' grad() tensors view from the moment that a backward has made
/// them; further ones accumulate there, and the reduction works on it in place. One thread at a time runs a backward
/// over them. All calls but the accessors are collective: every rank makes them in the same order. On a GPU their work
/// takes its place on the caller's current stream, the same one for all calls. Debug mode's messages (Communicator)
/// call parameters by the names that name_tensors() gave them, else by their number in the optimizer.
class MultiNodeOptimizer {
 public:
  /// Broadcasts rank 0's parameters to all ranks, those of `actual` alone: what else the model has (frozen parameters,
  /// buffers) a Trainer makes equal, or one call of comm->broadcast_data(*model). Parameters of integers have no
  /// gradients. Throws UsageError if the options contradict each other, and ArgumentError on every rank if the ranks'
  /// parameters differ in number, shape or dtype.
  MultiNodeOptimizer(std::unique_ptr<torch::optim::Optimizer> actual, std::shared_ptr<Communicator> comm,
                     const OptimizerOptions& options = {});

  /// Every gradient becomes None, as libtorch's zero_grad and model->zero_grad() do, which serve as well but after a
  /// backward that threw.
  void zero_grad();

  /// Promises one backward and then step(samples), with nothing between them that changes gradients: the ranks of a
  /// node may then reduce each other's gradients while backward goes on. If the promise is broken when others may have
  /// relied on it, step() or zero_grad() throws UsageError. Local, and never needed.
  void announce_step(std::int64_t samples);
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
  /// Saves traffic with overlap; changes no result. Without it a second backward before step() may begin while the
  /// first one's gradients are under way: it waits for no rank, and the sums are reduced anew at the step.
  /// Tokens may overlap, and outlive the optimizer.
  [[nodiscard]] std::shared_ptr<void> no_sync();

  /// Brings together what options let drift apart: with local SGD the parameters become their mean, with double
  /// buffering the last step's gradients are applied. For epochs' ends, before evaluation and before parameters are
  /// saved; the Trainer and its extensions do so.
  void synchronize();
  /// With local SGD these (a model's buffers) are averaged with the parameters.
  void average_also(const std::vector<at::Tensor>& buffers);

  /// Hooks run in the order added. A name in use is an ArgumentError.
  void add_hook(const std::string& name, GradientHook hook);
  void remove_hook(const std::string& name);

  /// What a checkpoint needs beside actual()'s own state, after synchronize(): what all ranks hold alike, and what each
  /// rank keeps for itself (what compression lost, …). The parameters are loaded first.
  [[nodiscard]] nlohmann::json state() const;
  void load_state(const nlohmann::json& state);
  [[nodiscard]] NamedTensors rank_state() const;
  void load_rank_state(const NamedTensors& state);
  /// True if each rank's actual() has a state of its own.
  [[nodiscard]] bool local() const noexcept { return local_ != nullptr; }

  [[nodiscard]] torch::optim::Optimizer& actual() noexcept { return *actual_; }
  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups() { return actual_->param_groups(); }
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const noexcept { return comm_; }
  /// Seconds for which steps of this rank waited for communication so far, the other ranks' delays included.
  [[nodiscard]] double communication_s() const noexcept { return communication_s_; }
  /// Bytes of gradients or parameters that this rank gave to collectives so far.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept;

 private:
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  void follow_parameter_set();
  void adopt(std::vector<at::Tensor> parameters);
  void step_weighted(double weight);
  void wait(const char* what, const std::function<void()>& work);
  void update();

  std::unique_ptr<torch::optim::Optimizer> actual_;
  std::shared_ptr<Communicator> comm_;
  OptimizerOptions options_;
  std::vector<at::Tensor> known_;  // actual's parameters at the last look
  std::unique_ptr<GradientReduction> reduction_;
  std::weak_ptr<void> no_sync_;      // what no_sync() gave, while somebody holds it
  std::unique_ptr<LocalSgd> local_;  // null: gradients are averaged, not parameters
  std::vector<at::Tensor> buffers_;  // for local_
  std::vector<std::pair<std::string, GradientHook>> hooks_;
  std::int64_t nominal_samples_ = 0;  // agreed at the first weighed step; a rank with as many needs no scaling pass
  double communication_s_ = 0;
  std::uint64_t earlier_bytes_ = 0;  // sent for earlier sets of parameters
};

/// Collective. Wraps `actual`, as ChainerMN's function of the same name.
[[nodiscard]] std::unique_ptr<MultiNodeOptimizer> create_multi_node_optimizer(
    std::unique_ptr<torch::optim::Optimizer> actual, std::shared_ptr<Communicator> comm,
    const OptimizerOptions& options = {});

/// Hook: adds rate × parameter to each gradient (Chainer's WeightDecay).
[[nodiscard]] GradientHook weight_decay(double rate);
/// Hook: scales all gradients so that their global L2 norm is at most `threshold` (Chainer's GradientClipping;
/// Pascanu et al. 2013, arXiv:1211.5063).
[[nodiscard]] GradientHook gradient_clipping(double threshold);

}  // namespace mn
