/// Defines the multi-node optimizer: a torch optimizer that updates parameters by the mean gradient over all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
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
class ShardedParameters;
class DeviceUpdate;
class StepFaults;
class StepWeights;
struct ReductionResult;

/// A function that runs between the reduction and the update, when the gradients of `parameters` are the mean over
/// ranks. A hook may change gradients in place, but must make the same change on all ranks.
using GradientHook = std::function<void(const std::vector<at::Tensor>& parameters)>;

/// A function that computes the loss again. It calls zero_grad(), the forward pass and the backward pass, and returns
/// the loss, a tensor of one element.
using LossClosure = std::function<at::Tensor()>;

/// A multi-node optimizer contains a torch optimizer, but does not derive from torch::optim::Optimizer; therefore pass
/// actual() to learning-rate schedulers. The comments on step() describe the default options. OptimizerOptions
/// describes all other options.
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
/// Until step() reduces the gradients, they are this rank's own. To clip, scale or log the mean over ranks, use hooks,
/// clip_grad_norm() or reduce_gradients(). If the program writes to gradients between backward and step(), step()
/// throws UsageError (OptimizerOptions::check_gradients). It finds every write that torch counts in the tensor's
/// version. It finds any other write only if a few compared elements have changed, or, in debug mode, if any element
/// has changed. On GPUs, such a write is found one step later.
///
/// The gradients live in one flat buffer. When a backward pass has made a gradient, the parameter's grad() becomes a
/// view of the buffer. Later backward passes add to the view, and the reduction works in place. If the program keeps a
/// gradient beyond zero_grad() or beyond the optimizer's life, the gradient keeps its values. Only one thread at a time
/// may run a backward pass over the parameters.
///
/// After the first update and every OptimizerOptions::check_parameters updates, the ranks compare their parameters. If
/// they differ, all ranks throw a DataError that names the ranks, their hosts and the first parameter that differs.
///
/// The parameters of a MixtureOfExperts are among the model's: each rank updates the experts that it holds, by the mean
/// gradient over the losses of all ranks. Experts exclude sharding, double buffering and local steps.
///
/// Gradients of frozen parameters (without requires_grad) are not sent, and no rank waits for them. If groups list a
/// parameter twice (tied weights), the second place is removed from the groups, so that the parameter is updated once.
/// If another living multi-node optimizer has one of the parameters, the first zero_grad() or step() throws UsageError.
///
/// Every call is collective unless its comment says "local": all ranks must make the same calls in the same order. On
/// the CPU, calls block. On a GPU, calls only enqueue work on the caller's current stream; use the same stream for all
/// calls. In debug mode, error messages contain the parameters' names from name_tensors(), or the index of a parameter
/// without a name.
class MultiNodeOptimizer {
 public:
  /// Broadcasts rank 0's values of the parameters of `actual`. The constructor does not broadcast the model's buffers
  /// and its remaining parameters; a Trainer does so, or a call of comm->broadcast_data(*model). Integer parameters
  /// have no gradients. Throws UsageError if the options contradict each other; all ranks throw ArgumentError if their
  /// parameters differ in number, shape or dtype. From now on, the ranks draw different random numbers, for example for
  /// dropout. For this purpose, if libtorch's generators have the same state on all ranks, each rank except rank 0
  /// seeds its generators with a hash of the state and the rank.
  MultiNodeOptimizer(std::unique_ptr<torch::optim::Optimizer> actual, std::shared_ptr<Communicator> comm,
                     const OptimizerOptions& options = {});
  ~MultiNodeOptimizer();
  MultiNodeOptimizer(const MultiNodeOptimizer&) = delete;
  MultiNodeOptimizer& operator=(const MultiNodeOptimizer&) = delete;

  /// Sets every gradient to None. libtorch's zero_grad() may be called instead, except after a backward pass that threw
  /// and with Shard::kParameters, whose parameters can be used only after this call.
  void zero_grad();

  /// Local and optional; call it after scale_loss(). With this call, the program promises that one backward pass and
  /// then step(samples) follow, and that it neither reads nor changes gradients in between. Reductions during the
  /// backward pass then know this rank's weight, and work in place, without a copy; the ranks of a node may also reduce
  /// each other's gradients while the backward pass continues. If the program breaks the promise, step() or zero_grad()
  /// throws UsageError, unless no rank can have relied on the promise yet.
  void announce_step(double samples);
  /// Local. Returns the tensor on which to call backward(): `loss` times the GradScaler's scale, or `loss` itself
  /// without a GradScaler. A scaled loss trains the parameters of one optimizer only. step() therefore throws
  /// UsageError if the gradients come from a loss that lacks this optimizer's scale, has the scale twice, or has
  /// another optimizer's scale.
  [[nodiscard]] at::Tensor scale_loss(const at::Tensor& loss);
  /// Local. Scales the loss as scale_loss(loss) does, and multiplies it by its weight, the number of samples. The
  /// weight is needed if ranks have different numbers of samples and the backward pass makes collective calls
  /// (mn::all_gather(), MultiNodeBatchNorm, …). A step may have several losses: their gradients add up by their
  /// weights, and step() then gets the sum of the losses' samples. If the losses train parameters of several
  /// optimizers, call step() of each optimizer with the sum, even if on this rank a loss has reached none of its
  /// parameters. `losses` is the number of losses in a step, and must be equal on all ranks; if it is given, the first
  /// step saves a pass over the gradients. A rank without samples only calls step(0).
  [[nodiscard]] at::Tensor scale_loss(const at::Tensor& loss, double samples, std::int64_t losses = 1);
  /// Local. Call it between backward and step(). Multiplies this rank's gradients by `factor`. An example is 1 /
  /// samples, if the gradients are sums over samples.
  void scale_gradients(double factor);
  /// Replaces the gradients by their mean over ranks. The ranks weigh as in step(samples) or, if `samples` is not
  /// given, as in step(). The next step() then only runs the hooks and the update. Call reduce_gradients() in code that
  /// must see the mean but is not a hook. If a backward pass adds to the mean, and zero_grad() was not called first,
  /// step() throws UsageError. With double buffering, the mean is the mean of the previous step. Returns true, on all
  /// ranks, if there is a mean. There is none if no rank has samples, nor in the first step with double buffering.
  bool reduce_gradients(std::optional<double> samples = {});
  /// Makes a step as step(samples) does, but all ranks have the same weight in the mean gradient.
  void step();
  /// Makes a step: reduces the gradients to their mean over ranks, runs the hooks, and updates the parameters. The mean
  /// gradient is Σ nᵢgᵢ / Σ nᵢ. Here nᵢ is the number `samples` that rank i passes, and gᵢ is the gradient of rank i, a
  /// mean over nᵢ samples. `samples` counts the items over which the loss is a mean, such as images or tokens, or is
  /// the sum of their weights. A rank without samples passes 0; if all ranks pass 0, no parameter changes.
  ///
  /// Throws ArgumentError if `samples` is negative or not finite, if scale_loss() or reduce_gradients() had other
  /// samples, or if the ranks' weights differ although a backward without scale_loss(loss, samples) made collective
  /// calls that assume equal weights. With double buffering, the error comes in the next step; with local steps, it
  /// comes in the next average.
  ///
  /// If a parameter's gradient is None on some ranks only, it counts as zero there; if it is None on all ranks, the
  /// update leaves the parameter alone. The program may change the parameter set between calls, but must make the same
  /// change on all ranks. A parameter is broadcast when it is new to the optimizer or requires its first gradient;
  /// residuals of compression are kept. A frozen parameter costs nothing. Each change costs one additional reduction.
  /// All ranks throw UsageError in the step of the change if the ranks' sets differ, or if an unfrozen parameter has
  /// different values on different ranks. With double buffering, ranks without the change throw one step later. With
  /// local steps, all ranks throw in the next average.
  void step(double samples);

  /// Makes a step of an optimizer that computes the loss several times, such as torch::optim::LBFGS. After each call of
  /// `closure`, the gradients are reduced, the hooks run, and the torch optimizer gets the mean loss over ranks;
  /// therefore the torch optimizer makes the same decisions on all ranks. Returns the mean loss of the first call, a
  /// float64 on the CPU. If `samples` is given, it is the weight of this rank's loss and gradients; otherwise all ranks
  /// have the same weight. At least one rank needs samples. On a rank with 0 samples, the closure may return 0 without
  /// a backward pass. Throws UsageError with double buffering, local steps, a GradScaler or sharding.
  at::Tensor step(const LossClosure& closure, std::optional<double> samples = {});

  /// Local. While the returned token lives, backward passes accumulate gradients, but send none. If a step has several
  /// backward passes, hold a token during all of them except the last. If reductions overlap with backward passes, a
  /// token saves traffic; the results are the same with and without tokens. Several tokens may live at a time, and a
  /// token may outlive the optimizer.
  [[nodiscard]] std::shared_ptr<void> no_sync();

  /// Completes all steps. With local SGD, the parameters become their mean over ranks. With double buffering, the
  /// gradients of the last step are applied. Call it at the end of an epoch, before evaluation, and before parameters
  /// are saved; the Trainer and its extensions do so.
  void synchronize();
  /// Has an effect with local SGD only. From now on, each average of the parameters also averages the model's running
  /// statistics, over the samples of all ranks.
  void average_statistics(const torch::nn::Module& model);

  /// Local. Adds a hook. Hooks run in the order in which they were added. If `first` is true, the new hook runs before
  /// all earlier hooks instead. Throws ArgumentError if a hook already has this name.
  void add_hook(const std::string& name, GradientHook hook, bool first = false);
  /// Local. Removes the hook called `name`. Throws ArgumentError if there is no such hook.
  void remove_hook(const std::string& name);

  /// Local. Call it after synchronize(). Returns the state of this object for a checkpoint, without the state of
  /// actual(). The result is the same on all ranks.
  [[nodiscard]] nlohmann::json state() const;
  /// Restores `state`, a result of state(). Call it after the parameters were loaded.
  void load_state(const nlohmann::json& state);
  /// Local. Returns the tensors that this rank stores in a checkpoint: its residuals of compression and, on rank 0, the
  /// outer momentum of local SGD.
  [[nodiscard]] NamedTensors rank_state() const;
  /// Restores `state`, a result of rank_state(). Throws DataError if the state belongs to a different model or to
  /// different options.
  void load_rank_state(const NamedTensors& state);
  /// Local. True with local SGD. Each rank's torch optimizer then has a state of its own.
  [[nodiscard]] bool local() const noexcept { return local_ != nullptr; }

  /// Local. Returns the scaler of losses. Null if OptimizerOptions::grad_scaler is not set.
  [[nodiscard]] const GradScaler* scaler() const noexcept { return scaler_.get(); }

  /// Local. Returns the torch optimizer that makes the updates.
  [[nodiscard]] torch::optim::Optimizer& actual() noexcept { return *actual_; }
  /// Local. Returns the parameter groups of the torch optimizer.
  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups() { return actual_->param_groups(); }
  /// Local. Gives names to the parameter groups, in the order of the groups. The log then has the learning rate of a
  /// group as "lr/NAME". Several groups may have the same name, and names may be empty.
  void name_groups(std::vector<std::string> names) { group_names_ = std::move(names); }
  /// Local. Returns the name that name_groups() gave the group. If name_groups() was not called, the first group has an
  /// empty name, and the next groups are called "group1", "group2", …
  [[nodiscard]] std::string group_name(std::size_t group) const {
    if (group < group_names_.size()) return group_names_[group];
    return group == 0 ? "" : "group" + std::to_string(group);
  }
  /// Local. Returns the parameters whose gradients are reduced, each once. With sharding returns this rank's pieces of
  /// them, which may be empty. Of experts, too, returns this rank's pieces.
  [[nodiscard]] std::vector<at::Tensor> trained_parameters() const;
  /// Local. Null without OptimizerOptions::shard.
  [[nodiscard]] ShardedParameters* shards() const noexcept { return shards_.get(); }
  /// Local. Returns the communicator of the ranks that train together.
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const noexcept { return comm_; }
  /// Local. Returns the exposed communication time in seconds: how long this rank's steps have waited for the network
  /// and for slower ranks. On a GPU, this call waits for the device, because steps only enqueue work; therefore call it
  /// only for reports. Steps that a GraphedStep launches do not count.
  [[nodiscard]] double communication_s() const;
  /// Local. Returns how many bytes of gradients or parameters this rank has passed to collective calls so far.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept;

 private:
  /// The result of a reduction that the update after the reduction needs.
  struct Reduced {
    bool has_mean;
    StepWeight weight;
    bool finite = true;  // false: the GradScaler found NaN or infinity
  };

  void follow_parameter_set();
  void change_set(bool before_step);
  void join_set_change();
  void adopt(std::vector<at::Tensor> parameters);
  [[nodiscard]] NamedTensors own_state() const;
  /// Returns the ranks over which gradients are averaged. With local SGD this is the calling rank alone.
  [[nodiscard]] const std::shared_ptr<Communicator>& group() const noexcept { return local_ ? alone_ : comm_; }
  void shard(const std::vector<at::Tensor>& parameters);
  void take_experts(std::vector<at::Tensor>& reduced);
  void reduce_experts(double factor);
  void make_reduction(std::vector<at::Tensor> parameters, const std::vector<at::Tensor>& sparse);
  [[nodiscard]] std::vector<at::Tensor> sparse_parameters() const;
  void leave_sparse_outside();
  void agree_on_set(const std::vector<at::Tensor>& now);
  void agree_on_frozen();
  void look_for_frozen();
  void apply_pending();
  [[nodiscard]] bool take_pending();
  [[nodiscard]] std::string fault_of_frozen() const;
  [[nodiscard]] std::string fault_of_scales() const;
  [[nodiscard]] std::string fault_of_sharded(const StepWeight& weight) const;
  void check_alone();
  [[nodiscard]] std::unordered_set<const c10::TensorImpl*> moved() const;
  void keep_overflows_on_device();
  [[nodiscard]] std::string change_of(std::size_t i) const;
  void find_faults(StepWeight& weight);
  void throw_faults(const ReductionResult& reduced, Communicator& ranks);
  void average(const std::function<ReductionResult()>& average_parameters);
  [[nodiscard]] bool is_reduced();
  [[nodiscard]] std::optional<StepWeight> weight_of(std::optional<double> samples);
  void reduce_weighted(const StepWeight& weight);
  [[nodiscard]] at::Tensor evaluate(const LossClosure& closure, const StepWeight& weight);

  friend class GraphedStep;
  void step_weighted(const StepWeight& weight);
  void watch_overflows();
  void wait(const char* what, const std::function<void()>& work);
  void update();

  std::unique_ptr<torch::optim::Optimizer> actual_;
  std::shared_ptr<Communicator> comm_;
  std::shared_ptr<Communicator> alone_;  // this rank alone; null without local SGD
  OptimizerOptions options_;
  std::unique_ptr<ParameterSet> set_;
  std::shared_ptr<ShardedParameters> shards_;  // null without sharding
  std::vector<at::Tensor> experts_;            // this rank's pieces of experts
  std::optional<Reduced> reduced_;             // between a reduction and its update
  std::unique_ptr<StepFaults> faults_;
  std::unique_ptr<GradientReduction> reduction_;
  std::unique_ptr<GradScaler> scaler_;   // null: losses are not scaled
  DeviceUpdate* skips_ = nullptr;        // actual_, if the device decides which steps to leave out
  bool is_recording_ = false;            // a GraphedStep records a step, so nothing is computed
  std::uint64_t adoptions_ = 0;          // number of changes of parameters, states and hooks
  bool has_looked_ = false;              // check_alone() has run already
  std::weak_ptr<void> no_sync_;          // the token of no_sync()
  std::unique_ptr<LocalSgd> local_;      // null: gradients are averaged, and not parameters
  std::vector<AveragedBuffer> buffers_;  // running statistics that local_ averages
  NamedTensors left_out_;                // states of parameters that the reduction leaves out
  /// With double buffering: a mean of gradients that no update has used yet. It is kept here while a new reduction
  /// replaces reduction_.
  std::optional<std::vector<at::Tensor>> pending_;
  std::vector<std::pair<std::string, GradientHook>> hooks_;
  std::vector<std::string> group_names_;
  std::unique_ptr<ParameterCheck> check_;
  std::unique_ptr<StepWeights> weights_;
  double communication_s_ = 0;          // measured by the host's clock; unused if waits_ is set
  std::unique_ptr<DeviceTimer> waits_;  // measures waits by the device's clock; null on CPUs and with a trace
  std::uint64_t earlier_bytes_ = 0;     // bytes sent for earlier sets of parameters
  std::shared_ptr<void> entry_;         // when destroyed, removes this from the list of living optimizers
};

/// Collective: makes a multi-node optimizer, like ChainerMN's function of the same name. Throws as the constructor
/// does.
[[nodiscard]] std::unique_ptr<MultiNodeOptimizer> create_multi_node_optimizer(
    std::unique_ptr<torch::optim::Optimizer> actual, std::shared_ptr<Communicator> comm,
    const OptimizerOptions& options = {});

/// Makes a hook that adds rate × parameter to each gradient (Chainer's WeightDecay).
[[nodiscard]] GradientHook weight_decay(double rate);
/// Makes a hook that scales all gradients so that their global L2 norm is at most `threshold` (Chainer's
/// GradientClipping; Pascanu et al. 2013, arXiv:1211.5063).
[[nodiscard]] GradientHook gradient_clipping(double threshold);

/// Collective. Call it between backward and step(). Calls reduce_gradients(samples), unless it was already called.
/// After the reduction, scales the gradients as gradient_clipping() does. Returns the norm before the scaling, which is
/// equal on all ranks; 0 if there is no mean gradient. Do not use torch's clip_grad_norm_ instead, because it would
/// clip each rank's gradients by the rank's own norm.
double clip_grad_norm(MultiNodeOptimizer& optimizer, double max_norm, std::optional<double> samples = {});

}  // namespace mn
