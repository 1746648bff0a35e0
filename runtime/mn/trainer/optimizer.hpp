/// The multi-node optimizer: a torch optimizer that steps on the mean gradient over all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <torch/optim/optimizer.h>

#include <mn/comm/communicator.hpp>
#include <mn/gradients/optimizer_options.hpp>
#include <mn/gradients/step_weight.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/running_statistics.hpp>

namespace mn {

class DeviceTimer;
class GradScaler;
class GradientReduction;
class GraphedStep;
class LocalSgd;
class ParameterCheck;
class ParameterSet;
class SkipsOverflows;
class StepFaults;
class StepWeights;
struct ReductionResult;

/// Called between the reduction and the update, with the parameters whose gradients are now the mean. May change
/// gradients in place, in the same way on every rank.
using GradientHook = std::function<void(const std::vector<at::Tensor>& parameters)>;

/// Computes a loss once more: zero_grad(), forward, backward; returns the loss, a tensor of one element.
using LossClosure = std::function<at::Tensor()>;

/// Wraps a torch optimizer but does not derive from it: learning-rate schedulers take actual(). Comments on step()
/// describe the default options; OptimizerOptions has the others.
///
///   auto sgd = std::make_unique<torch::optim::SGD>(model->parameters(), 0.1);
///   auto optimizer = mn::create_multi_node_optimizer(std::move(sgd), comm);
///   for (const auto& [inputs, targets] : minibatches) {
///     optimizer->zero_grad();
///     const at::Tensor loss = torch::mse_loss(model->forward(inputs), targets);
///     loss.backward();
///     mn::clip_grad_norm(*optimizer, 1.0, inputs.size(0));  // the norm of the mean gradient over all ranks
///     optimizer->step(inputs.size(0));                      // this rank's samples
///   }
///
/// Until step(), gradients are this rank's own: they are reduced there, not during backward. Whoever clips, scales or
/// logs them before sees one rank's part. For that there are hooks, clip_grad_norm() and reduce_gradients(). A change
/// between backward and step() throws UsageError (OptimizerOptions::check_gradients) where it alters one of a few
/// elements that are compared, in debug mode any. On GPUs a write that torch does not count is found a step later.
///
/// The gradients live in one flat buffer. When a backward has made a gradient, the parameter's grad() becomes a view of
/// the buffer; later backwards accumulate there, and the reduction works on it in place. A gradient that the program
/// keeps over zero_grad() keeps its values, also when the optimizer is gone. One thread at a time may run a
/// backward over the parameters.
///
/// After the first update and each OptimizerOptions::check_parameters more, the ranks compare their parameters: a
/// DataError on every rank names those that differ, with rank and host.
///
/// Parameters that require no gradient (frozen ones) are neither sent nor waited for. A parameter that groups list
/// twice (tied weights) is updated once: its repeats are removed from the groups. One that another living multi-node
/// optimizer has is a UsageError of the first call.
///
/// Every call is collective unless its comment says "local": all ranks make the same calls in the same order. Calls
/// block, except on a GPU: there they enqueue on the caller's current stream, which must be the same for all calls. In
/// debug mode, messages call parameters by the names that name_tensors() gave them, else by their index.
class MultiNodeOptimizer {
 public:
  /// Broadcasts rank 0's values of the parameters of `actual`, and of those alone. What else the model has (frozen
  /// parameters, buffers) a Trainer broadcasts, or one call of comm->broadcast_data(*model). Integer parameters have no
  /// gradients. Throws UsageError if the options contradict each other, and the same ArgumentError on every rank if the
  /// ranks' parameters differ in number, shape or dtype.
  /// From here on the ranks draw different random numbers (for dropout): if libtorch's generators are in the same state
  /// on all ranks, those of all but rank 0 are seeded again, from that state and the rank.
  MultiNodeOptimizer(std::unique_ptr<torch::optim::Optimizer> actual, std::shared_ptr<Communicator> comm,
                     const OptimizerOptions& options = {});
  ~MultiNodeOptimizer();
  MultiNodeOptimizer(const MultiNodeOptimizer&) = delete;
  MultiNodeOptimizer& operator=(const MultiNodeOptimizer&) = delete;

  /// Every gradient becomes None. libtorch's zero_grad() and model->zero_grad() do the same, but after a backward that
  /// threw, only this call will do.
  void zero_grad();

  /// Local and optional. Promises that one backward and then step(samples) follow, with nothing between them that reads
  /// or changes gradients: reductions during backward then know this rank's weight and work in place, without a copy,
  /// and the ranks of a node may reduce each other's gradients while backward continues. Comes after scale_loss(). If
  /// the promise is broken after others may have relied on it, step() or zero_grad() throws UsageError.
  void announce_step(double samples);
  /// Local. The loss to call backward() of: multiplied by the GradScaler's scale, or as it is without one. With a
  /// GradScaler, step() throws UsageError if nothing was scaled.
  [[nodiscard]] at::Tensor scale_loss(const at::Tensor& loss);
  /// Local. The same, and the loss carries its weight into backward: where ranks differ in their samples, collective
  /// calls within backward (mn::all_gather() and the like, MultiNodeBatchNorm) need it. Of several losses the gradients
  /// add up, each by its weight; then comes step(SUM of the samples), also of other optimizers whose parameters these
  /// losses train, and also where a loss has reached none of them on this rank. `losses` of a step, the same on all
  /// ranks, saves a pass over gradients in the first step. A rank without samples calls step(0) alone.
  [[nodiscard]] at::Tensor scale_loss(const at::Tensor& loss, double samples, std::int64_t losses = 1);
  /// Local, between backward and step. Multiplies this rank's gradients, e.g. sums by 1 / samples.
  void scale_gradients(double factor);
  /// Gradients become their mean over ranks now; step() then runs the hooks and the update alone. For what must see the
  /// mean and is not a hook. A backward in between that adds to the mean is a UsageError of step(); after zero_grad()
  /// all starts over. With double buffering the mean is the previous step's. Returns, the same on every rank, whether
  /// there is a mean: not in the first step then, nor where no rank has samples.
  bool reduce_gradients();
  /// The same, weighted as in step(samples).
  bool reduce_gradients(double samples);
  /// Mean of gradients over ranks → hooks → update. Every rank has the same weight.
  void step();
  /// The same, with this rank's gradient, a mean over `samples` samples, weighted by them: Σ nᵢgᵢ / Σ nᵢ. Whatever the
  /// mean is over counts as samples: tokens, say, or a sum of weights. A rank without samples passes 0; if all ranks
  /// do, nothing is updated. Throws ArgumentError if `samples` is negative or not finite, if scale_loss() or
  /// reduce_gradients() has weighed otherwise, or if the ranks' weights differ where collective calls in a backward
  /// without scale_loss(loss, samples) took them to be equal; with double buffering the next step throws, with local
  /// steps the next average.
  ///
  /// A None gradient counts as zero where another rank has one; where no rank has one, the update leaves the parameter
  /// alone. The parameter set may change between calls, on every rank: parameters that are new to the optimizer, or
  /// require their first gradient, are broadcast; residuals of compression stay. One that is frozen costs nothing more,
  /// and comes back at no cost.
  void step(double samples);

  /// For optimizers that compute the loss several times in a step (torch::optim::LBFGS). After each call of `closure`
  /// the gradients are reduced and the hooks run; the optimizer gets the mean loss over ranks. So all ranks decide
  /// alike and call as often. Returns the mean of the first call, a float64 on the CPU. Not with double buffering,
  /// local steps or a GradScaler (UsageError).
  at::Tensor step(const LossClosure& closure);
  /// The same, with this rank's loss and gradients weighted by its samples. At least one rank needs samples; one
  /// without any passes 0, and its closure may return 0 without a backward.
  at::Tensor step(const LossClosure& closure, double samples);

  /// Local. While the result lives, a backward accumulates and sends nothing: for all but the last backward of a step.
  /// It saves traffic with overlap and changes no result. Without it, a second backward before step() may begin while
  /// the first one's gradients are under way; it waits for no rank, and step() reduces the sums again. Tokens may
  /// overlap, and outlive the optimizer.
  [[nodiscard]] std::shared_ptr<void> no_sync();

  /// Applies what the options hold back: with local SGD parameters become their mean, with double buffering the last
  /// step's gradients are applied. For the end of an epoch, before evaluation and before parameters are saved; the
  /// Trainer and its extensions call it there.
  void synchronize();
  /// With local SGD the model's running statistics become those of all ranks' samples when parameters are averaged.
  void average_statistics(const torch::nn::Module& model);

  /// Local. Hooks run in the order added. Throws ArgumentError if the name is in use.
  void add_hook(const std::string& name, GradientHook hook);
  /// Local. Throws ArgumentError if there is no hook of that name.
  void remove_hook(const std::string& name);

  /// Local. What a checkpoint needs beside actual()'s own state, after synchronize(); the same on all ranks.
  [[nodiscard]] nlohmann::json state() const;
  /// Call after the parameters are loaded.
  void load_state(const nlohmann::json& state);
  /// Local. What this rank keeps for itself: what compression lost, the outer momentum.
  [[nodiscard]] NamedTensors rank_state() const;
  /// Throws DataError if the state is of other parameters or other options.
  void load_rank_state(const NamedTensors& state);
  /// Local. True if each rank's actual() has a state of its own, as with local SGD.
  [[nodiscard]] bool local() const noexcept { return local_ != nullptr; }

  /// Local. Null without OptimizerOptions::grad_scaler.
  [[nodiscard]] const GradScaler* scaler() const noexcept { return scaler_.get(); }

  /// Local. The wrapped optimizer.
  [[nodiscard]] torch::optim::Optimizer& actual() noexcept { return *actual_; }
  /// Local. Those of the wrapped optimizer.
  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups() { return actual_->param_groups(); }
  /// Local. Those whose gradients are reduced, each once.
  [[nodiscard]] const std::vector<at::Tensor>& trained_parameters() const noexcept;
  /// Local. What gradients are averaged over.
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const noexcept { return comm_; }
  /// Local. Exposed communication time in seconds: what this rank's steps have waited for the network and for slower
  /// ranks. On a GPU, where steps only enqueue, this call waits for them, so it is for reports; steps that a
  /// GraphedStep launches do not count there.
  [[nodiscard]] double communication_s() const;
  /// Local. Bytes of gradients or parameters that this rank has passed to collectives.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept;

 private:
  /// What reduce_gradients() leaves to the step.
  struct Reduced {
    bool has_mean;
    StepWeight weight;
    bool finite = true;  // for the scaler
  };

  void follow_parameter_set();
  void adopt(std::vector<at::Tensor> parameters);
  [[nodiscard]] NamedTensors own_state() const;
  /// The ranks that average gradients.
  [[nodiscard]] const std::shared_ptr<Communicator>& group() const noexcept { return local_ ? alone_ : comm_; }
  void make_reduction(std::vector<at::Tensor> parameters, const std::vector<at::Tensor>& sparse);
  [[nodiscard]] std::vector<at::Tensor> sparse_parameters() const;
  void leave_sparse_outside();
  void look_for_frozen();
  void apply_pending();
  // optimizer_gradients.cpp
  [[nodiscard]] std::string fault_of_frozen() const;
  void check_alone();
  void keep_overflows_on_device();
  [[nodiscard]] std::string find_gradient_fault();
  [[nodiscard]] std::string change_of(std::size_t i) const;
  void find_faults(StepWeight& weight);
  void throw_faults(const ReductionResult& reduced);
  [[nodiscard]] bool is_reduced();
  void reduce_weighted(const StepWeight& weight);
  [[nodiscard]] at::Tensor evaluate(const LossClosure& closure, const StepWeight& weight);
  at::Tensor step_with(const LossClosure& closure, const StepWeight& weight);

  friend class GraphedStep;
  void step_weighted(const StepWeight& weight);
  void watch_overflows();
  void wait(const char* what, const std::function<void()>& work);
  void update();

  std::unique_ptr<torch::optim::Optimizer> actual_;
  std::shared_ptr<Communicator> comm_;
  std::shared_ptr<Communicator> alone_;  // this rank; null without local SGD
  OptimizerOptions options_;
  std::unique_ptr<ParameterSet> set_;
  std::optional<Reduced> reduced_;  // by reduce_gradients(), for the next step
  std::unique_ptr<StepFaults> faults_;
  std::unique_ptr<GradientReduction> reduction_;
  std::unique_ptr<GradScaler> scaler_;   // null: losses are not scaled
  SkipsOverflows* skips_ = nullptr;      // actual_, where overflows stay on the device
  bool is_recording_ = false;            // a GraphedStep records a step, which computes nothing now
  std::uint64_t adoptions_ = 0;          // of parameters, states and hooks
  bool has_looked_ = false;              // whether another optimizer has one of these parameters
  std::weak_ptr<void> no_sync_;          // what no_sync() returned, while somebody holds it
  std::unique_ptr<LocalSgd> local_;      // null: gradients are averaged, not parameters
  std::vector<AveragedBuffer> buffers_;  // for local_
  std::vector<std::pair<std::string, GradientHook>> hooks_;
  std::unique_ptr<ParameterCheck> check_;
  std::unique_ptr<StepWeights> weights_;
  double communication_s_ = 0;          // by the host's clock
  std::unique_ptr<DeviceTimer> waits_;  // by the device's: in place of that, unless the host waits for a trace
  std::uint64_t earlier_bytes_ = 0;     // sent for earlier sets of parameters
};

/// Collective. Wraps `actual`, as ChainerMN's function of the same name; throws as the constructor does.
[[nodiscard]] std::unique_ptr<MultiNodeOptimizer> create_multi_node_optimizer(
    std::unique_ptr<torch::optim::Optimizer> actual, std::shared_ptr<Communicator> comm,
    const OptimizerOptions& options = {});

/// A hook that adds rate × parameter to each gradient (Chainer's WeightDecay).
[[nodiscard]] GradientHook weight_decay(double rate);
/// A hook that scales all gradients so that their global L2 norm is at most `threshold` (Chainer's GradientClipping;
/// Pascanu et al. 2013, arXiv:1211.5063).
[[nodiscard]] GradientHook gradient_clipping(double threshold);

/// Collective, between backward and step(): reduces the gradients, unless that is done, then scales them as
/// gradient_clipping() does. Returns their norm before, the same on every rank; 0 where there is no mean. In place of
/// torch's clip_grad_norm_, which would clip each rank's own gradients by its own norm.
double clip_grad_norm(MultiNodeOptimizer& optimizer, double max_norm);
/// The same, with this rank's gradients weighted by its samples, as in step(samples).
double clip_grad_norm(MultiNodeOptimizer& optimizer, double max_norm, double samples);

}  // namespace mn
