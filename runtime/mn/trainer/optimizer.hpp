/// The multi-node optimizer: a torch optimizer that steps on the mean gradient over all ranks.
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
class DeviceUpdate;
class StepFaults;
class StepWeights;
struct ReductionResult;

/// A function that runs between the reduction and the update. The gradients of `parameters` are now the mean over
/// ranks. A hook may change gradients in place, if it makes the same change on all ranks.
using GradientHook = std::function<void(const std::vector<at::Tensor>& parameters)>;

/// A function that computes the loss again: it calls zero_grad(), the forward pass and the backward pass, and returns
/// the loss, a tensor of one element.
using LossClosure = std::function<at::Tensor()>;

/// Wraps a torch optimizer but does not derive from torch::optim::Optimizer: give learning-rate schedulers actual().
/// The comments on step() describe the default options; OptimizerOptions describes the rest.
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
/// Until step(), gradients are this rank's own, because step() reduces them. To clip, scale or log the mean, use hooks,
/// clip_grad_norm() or reduce_gradients(). If gradients change between backward and step(), step() throws UsageError
/// (OptimizerOptions::check_gradients): always if torch counts the write, otherwise if one of a few compared elements
/// has changed (in debug mode, if any element has changed). On GPUs a write that torch does not count is found a step
/// later.
///
/// The gradients live in one flat buffer. When a backward has made a gradient, the parameter's grad() becomes a view of
/// the buffer; later backwards accumulate into the view, and the reduction works in place. A gradient that the program
/// keeps beyond zero_grad() or beyond the optimizer keeps its values. One thread at a time may run a backward over the
/// parameters.
///
/// After the first update and every OptimizerOptions::check_parameters updates, the ranks compare their parameters. If
/// they differ, all ranks throw a DataError that names the ranks, their hosts and the first parameter that differs.
///
/// Frozen parameters (without requires_grad) are neither sent nor waited for. A parameter that groups list twice (tied
/// weights) is updated once: its repeats are removed from the groups. If another living multi-node optimizer has one of
/// the parameters, the first zero_grad() or step() throws UsageError.
///
/// Every call is collective unless its comment says "local": all ranks must make the same calls in the same order.
/// Calls block, except on a GPU, where they enqueue on the caller's current stream; use one stream for all calls. In
/// debug mode, messages contain the parameters' names from name_tensors(), or indices of parameters without a name.
class MultiNodeOptimizer {
 public:
  /// Broadcasts rank 0's values of the parameters of `actual`. A Trainer, or a call of comm->broadcast_data(*model),
  /// broadcasts the model's buffers and remaining parameters. Integer parameters have no gradients. Throws UsageError
  /// if the options contradict each other; all ranks throw ArgumentError if their parameters differ in number, shape or
  /// dtype. From now on the ranks draw different random numbers (for dropout): if libtorch's generators have the same
  /// state on all ranks, each rank but rank 0 seeds its generators with a hash of the state and the rank.
  MultiNodeOptimizer(std::unique_ptr<torch::optim::Optimizer> actual, std::shared_ptr<Communicator> comm,
                     const OptimizerOptions& options = {});
  ~MultiNodeOptimizer();
  MultiNodeOptimizer(const MultiNodeOptimizer&) = delete;
  MultiNodeOptimizer& operator=(const MultiNodeOptimizer&) = delete;

  /// Sets every gradient to None. Except after a backward that threw, libtorch's zero_grad() may be called instead.
  void zero_grad();

  /// Local and optional; call it after scale_loss(). Promises that one backward and then step(samples) follow, and that
  /// the program neither reads nor changes gradients in between. Reductions during backward then know this rank's
  /// weight and work in place, without a copy, and the ranks of a node may reduce each other's gradients while backward
  /// continues. If the program breaks the promise after ranks may have relied on it, step() or zero_grad() throws
  /// UsageError.
  void announce_step(double samples);
  /// Local. Returns the tensor on which to call backward(): `loss` times the GradScaler's scale, or `loss` without a
  /// GradScaler. step() throws UsageError if a loss whose backward made the gradients lacks this optimizer's scale, has
  /// it twice, or has another optimizer's scale: a scaled loss trains the parameters of one optimizer.
  [[nodiscard]] at::Tensor scale_loss(const at::Tensor& loss);
  /// Local. Scales the loss as scale_loss(loss), and multiplies it by its weight. If ranks differ in their samples,
  /// collective calls within backward (mn::all_gather(), MultiNodeBatchNorm, …) need the weight. The gradients of
  /// several losses add up by their weights. Then call step() with the sum of the losses' samples. If the losses train
  /// parameters of further optimizers, call their step() with the sum, too, even if on this rank a loss has reached
  /// none of their parameters. `losses` is the number of losses in a step, equal on all ranks; it saves a pass over
  /// gradients in the first step. A rank without samples only calls step(0).
  [[nodiscard]] at::Tensor scale_loss(const at::Tensor& loss, double samples, std::int64_t losses = 1);
  /// Local, between backward and step(). Multiplies this rank's gradients by `factor`, for example sums by 1 / samples.
  void scale_gradients(double factor);
  /// Replaces the gradients by their mean over ranks, with the weights of step(samples) or, without `samples`, of
  /// step(). The step then only runs the hooks and the update. Call it in code that must see the mean but is not a
  /// hook. A backward that adds to the mean makes step() throw UsageError, unless zero_grad() comes first. With double
  /// buffering the mean is the previous step's. Returns true, on all ranks, if there is a mean: not if no rank has
  /// samples, nor in the first step with double buffering.
  bool reduce_gradients(std::optional<double> samples = {});
  /// Makes a step: reduces gradients to their mean over ranks, in which all weigh the same, runs the hooks, updates.
  void step();
  /// Makes a step: reduces gradients to their mean over ranks, runs the hooks, updates the parameters. The mean is Σ
  /// nᵢgᵢ / Σ nᵢ, where gᵢ is the gradient of rank i, a mean over nᵢ = `samples` samples. Samples are what the loss is
  /// a mean over: images, tokens, or a sum of weights. A rank without samples passes 0; if all ranks pass 0, no
  /// parameter changes.
  ///
  /// Throws ArgumentError if `samples` is negative or not finite, if scale_loss() or reduce_gradients() had other
  /// samples, or if the ranks' weights differ although a backward without scale_loss(loss, samples) made collective
  /// calls that assume equal weights. With double buffering the next step throws; with local steps the next average
  /// throws.
  ///
  /// A None gradient counts as zero if any rank has a gradient of the parameter; if no rank has a gradient, the update
  /// leaves the parameter alone. The parameter set may change between calls, in the same way on all ranks: parameters
  /// that are new to the optimizer, or require their first gradient, are broadcast; residuals of compression are kept.
  /// A frozen parameter costs nothing; each change makes one reduction more. If the ranks' sets differ, or an unfrozen
  /// parameter has other values on some rank, all ranks throw UsageError in the step of the change. With double
  /// buffering, ranks without the change throw a step later. With local steps, all ranks throw in the next average.
  void step(double samples);

  /// Makes a step of an optimizer that computes the loss several times (torch::optim::LBFGS). After each call of
  /// `closure` the gradients are reduced and the hooks run, and the optimizer gets the mean loss over ranks; therefore
  /// it makes the same decisions on all ranks. Returns the mean loss of the first call, a float64 on the CPU. Throws
  /// UsageError with double buffering, local steps or a GradScaler. Without `samples` all ranks weigh the same;
  /// otherwise this rank's loss and gradients are weighted by its samples. At least one rank needs samples. On a rank
  /// with 0 samples the closure may return 0 without a backward pass.
  at::Tensor step(const LossClosure& closure, std::optional<double> samples = {});

  /// Local. While the returned token lives, backward accumulates gradients and sends none. Hold a token during all but
  /// the last backward of a step. With overlap a token saves traffic; no result changes. Without a token a second
  /// backward waits for no rank, and step() reduces the sums again. Several tokens may live at a time, and a token may
  /// outlive the optimizer.
  [[nodiscard]] std::shared_ptr<void> no_sync();

  /// Completes all steps: with local SGD parameters become their mean, with double buffering the last step's gradients
  /// are applied. Call it at the end of an epoch, before evaluation and before parameters are saved; the Trainer and
  /// its extensions do so.
  void synchronize();
  /// For local SGD: from now on each average of the parameters also averages the model's running statistics over the
  /// samples of all ranks.
  void average_statistics(const torch::nn::Module& model);

  /// Local. Adds a hook. Hooks run in the order in which they were added; if `first` is true, the hook runs before the
  /// hooks added so far. Throws ArgumentError if the name is in use.
  void add_hook(const std::string& name, GradientHook hook, bool first = false);
  /// Local. Throws ArgumentError if there is no hook of that name.
  void remove_hook(const std::string& name);

  /// Local. Call it after synchronize(). Returns what a checkpoint needs of this object beside the state of actual();
  /// the result is the same on all ranks.
  [[nodiscard]] nlohmann::json state() const;
  /// Restores a result of state(). Call it after the parameters were loaded.
  void load_state(const nlohmann::json& state);
  /// Local. Returns the state that differs from rank to rank: residuals of compression, outer momentum of local SGD.
  [[nodiscard]] NamedTensors rank_state() const;
  /// Restores a result of rank_state(). Throws DataError if it belongs to a different model or to different options.
  void load_rank_state(const NamedTensors& state);
  /// Local. True if each rank's actual() has a state of its own, as with local SGD.
  [[nodiscard]] bool local() const noexcept { return local_ != nullptr; }

  /// Local. Returns the scaler of losses; null without OptimizerOptions::grad_scaler.
  [[nodiscard]] const GradScaler* scaler() const noexcept { return scaler_.get(); }

  /// Local. The torch optimizer that makes the updates.
  [[nodiscard]] torch::optim::Optimizer& actual() noexcept { return *actual_; }
  /// Local. The torch optimizer's groups of parameters.
  [[nodiscard]] std::vector<torch::optim::OptimizerParamGroup>& param_groups() { return actual_->param_groups(); }
  /// Local. Names the groups, in their order, for the log: "lr/NAME". Names may repeat, and may be empty.
  void name_groups(std::vector<std::string> names) { group_names_ = std::move(names); }
  /// Local. Returns the name that name_groups() gave the group. If no names were given, returns an empty name for the
  /// first group, then "group1", "group2", …
  [[nodiscard]] std::string group_name(std::size_t group) const {
    if (group < group_names_.size()) return group_names_[group];
    return group == 0 ? "" : "group" + std::to_string(group);
  }
  /// Local. Returns the parameters whose gradients are reduced, each once.
  [[nodiscard]] const std::vector<at::Tensor>& trained_parameters() const noexcept;
  /// Local. The ranks that train together.
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const noexcept { return comm_; }
  /// Local. Returns the exposed communication time in seconds: how long this rank's steps have waited for the network
  /// and for slower ranks. On a GPU this call waits for the device, because steps only enqueue work: call it only for
  /// reports. Steps that a GraphedStep launches do not count.
  [[nodiscard]] double communication_s() const;
  /// Local. Returns the number of bytes of gradients or parameters that this rank has passed to collectives.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept;

 private:
  /// The result of a reduction, which the update that follows needs.
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
  std::optional<Reduced> reduced_;  // between a reduction and its update
  std::unique_ptr<StepFaults> faults_;
  std::unique_ptr<GradientReduction> reduction_;
  std::unique_ptr<GradScaler> scaler_;   // null: losses are not scaled
  DeviceUpdate* skips_ = nullptr;        // actual_ if the device decides which steps to leave out
  bool is_recording_ = false;            // a GraphedStep records a step; nothing is computed
  std::uint64_t adoptions_ = 0;          // number of changes of parameters, states and hooks
  bool has_looked_ = false;              // check_alone() has run
  std::weak_ptr<void> no_sync_;          // the token of no_sync()
  std::unique_ptr<LocalSgd> local_;      // null: gradients are averaged, not parameters
  std::vector<AveragedBuffer> buffers_;  // running statistics, which local_ averages
  NamedTensors left_out_;                // states of parameters that the reduction leaves out
  /// With double buffering: a mean that is not applied yet. It is kept here while reduction_ is replaced by a new one.
  std::optional<std::vector<at::Tensor>> pending_;
  std::vector<std::pair<std::string, GradientHook>> hooks_;
  std::vector<std::string> group_names_;
  std::unique_ptr<ParameterCheck> check_;
  std::unique_ptr<StepWeights> weights_;
  double communication_s_ = 0;          // by the host's clock; not used if there is waits_
  std::unique_ptr<DeviceTimer> waits_;  // times waits by the device's clock; null on CPUs and with a trace
  std::uint64_t earlier_bytes_ = 0;     // sent for earlier sets of parameters
  std::shared_ptr<void> entry_;         // drops the entry in the list of living optimizers
};

/// Collective: makes a multi-node optimizer, like ChainerMN's function of this name. Throws as the constructor does.
[[nodiscard]] std::unique_ptr<MultiNodeOptimizer> create_multi_node_optimizer(
    std::unique_ptr<torch::optim::Optimizer> actual, std::shared_ptr<Communicator> comm,
    const OptimizerOptions& options = {});

/// Makes a hook that adds rate × parameter to each gradient (Chainer's WeightDecay).
[[nodiscard]] GradientHook weight_decay(double rate);
/// Makes a hook that scales all gradients so that their global L2 norm is at most `threshold` (Chainer's
/// GradientClipping; Pascanu et al. 2013, arXiv:1211.5063).
[[nodiscard]] GradientHook gradient_clipping(double threshold);

/// Collective, between backward and step(). Calls reduce_gradients(samples), unless it was called, then scales the
/// gradients as gradient_clipping() does. Returns the norm before the scaling, equal on all ranks; 0 if there is no
/// mean. Use it in place of torch's clip_grad_norm_, which would clip each rank's gradients by the rank's own norm.
double clip_grad_norm(MultiNodeOptimizer& optimizer, double max_norm, std::optional<double> samples = {});

}  // namespace mn
