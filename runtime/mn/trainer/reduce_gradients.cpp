// The first half of a step: reduces this rank's gradients to their mean over ranks.
//
// (1) The program must not change gradients between the backward pass and the reduction. GradientWatch finds such a
//     change.
// (2) If reduce_gradients() has made a mean, the next step uses this mean, unless zero_grad() or a new backward pass
//     comes first.
// (3) With a GradScaler, the mean is divided by the scale before anybody reads it, and all ranks see the same
//     overflows. Each backward pass must begin at losses that have this optimizer's scale.
// (4) If scale_loss(loss, samples) of any optimizer has multiplied a loss by its weight, its gradients do not get the
//     weight again.
// (5) After every call of a closure, the gradients are reduced, and the torch optimizer gets the mean loss over ranks.
//     Therefore the torch optimizer makes the same decisions on all ranks.
#include <mn/trainer/optimizer.hpp>

#include <array>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/trace.hpp>
#include <mn/gradients/gradient_reduction.hpp>
#include <mn/gradients/step_weights.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/optimizers/gradient_values.hpp>
#include <mn/sharding/sharded_parameters.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/tensor/weighted_loss.hpp>
#include <mn/trainer/parameter_check.hpp>
#include <mn/trainer/parameter_set.hpp>
#include <mn/trainer/step_faults.hpp>

namespace mn {

at::Tensor MultiNodeOptimizer::scale_loss(const at::Tensor& loss) {
  return scaler_ ? scaler_->scale_loss(scaled_loss(loss, scaler_.get())) : loss;
}

at::Tensor MultiNodeOptimizer::scale_loss(const at::Tensor& loss, double samples, std::int64_t losses) {
  const LossWeight weight = weights_->of_loss(samples, losses);
  return weighted_loss(scale_loss(loss), weight);
}

/// Collective. Returns this rank's weight in step(samples) or, if `samples` has no value, in step(). No value if no
/// rank has samples.
std::optional<StepWeight> MultiNodeOptimizer::weight_of(std::optional<double> samples) {
  const auto join_change = [this] { join_set_change(); };
  if (!samples) return weights_->of_equal_step(join_change);
  return weights_->of_step(*samples, join_change);
}

bool MultiNodeOptimizer::reduce_gradients(std::optional<double> samples) {
  const auto weight = weight_of(samples);
  if (!weight) return false;
  reduce_weighted(*weight);
  return reduced_->has_mean;
}

/// If a frozen parameter has a gradient, describes this fault. Empty if no frozen parameter has one.
std::string MultiNodeOptimizer::fault_of_frozen() const {
  const auto& frozen = set_->frozen();
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    if (!frozen[i].grad().defined()) continue;
    return "the gradient of " + tensor_name(frozen[i], i) +
           " is not reduced over the ranks, because that parameter does not require one: call requires_grad_() on it "
           "before the step, or zero_grad()";
  }
  return "";
}

/// Invariant 3: if this optimizer has a GradScaler, each backward pass must begin at losses that the GradScaler has
/// scaled exactly once. If it has none, no GradScaler may have scaled the losses. Describes a violation; empty if there
/// is none.
std::string MultiNodeOptimizer::fault_of_scales() const {
  for (const auto& backward : reduction_->gradients().watch().backwards()) {
    for (const LossScale& scale : backward->scales) {
      if (scale.scaler != scaler_.get()) {
        return "a backward of this optimizer's gradients began at a loss that another optimizer's GradScaler has "
               "scaled, but a GradScaler divides the gradients of its own optimizer alone: call backward() on the "
               "loss of each optimizer and, before this optimizer's own backward, its zero_grad(); for a loss that "
               "trains both, give all parameters to one optimizer, as groups, or train with bf16, which needs no scale";
      }
      if (scale.is_second) return "a loss was scaled twice: call scale_loss() once for each loss";
    }
    if (scaler_ && backward->scales.empty()) {
      return "the optimizer has a GradScaler, but the loss was not scaled: call optimizer->scale_loss(loss).backward()";
    }
  }
  return "";
}

std::string MultiNodeOptimizer::change_of(std::size_t i) const {
  return "the gradient of " + tensor_name(reduction_->parameters()[i], i) +
         " changed between backward and step(), where it is this rank's own: clip with "
         "mn::clip_grad_norm(optimizer, max_norm), change gradients in a hook or after optimizer->reduce_gradients(), "
         "or set OptimizerOptions::check_gradients to false";
}

/// Sharded gradients lie in the reduction. Describes a gradient that the program has written beside them, or a mean of
/// an earlier step, which they would not be added to; empty if there is none.
std::string MultiNodeOptimizer::fault_of_sharded(const StepWeight& weight) const {
  if (!shards_) return "";
  for (std::size_t i = 0; i < shards_->parameters().size(); ++i) {
    const at::Tensor& parameter = shards_->parameters()[i];
    if (!parameter.requires_grad()) continue;
    if (parameter.grad().defined() && !reduction_->gradients().set_changes()) {  // agree_on_frozen() takes others
      return "the program has set the gradient of " + tensor_name(parameter, i) +
             ", which is sharded: backward makes its gradient; to change it, write a hook of the optimizer";
    }
    const bool adds = weight.own != 0 || reduction_->gradients().watch().backward_ran();
    if (adds && shards_->pieces()[i].grad().defined()) {
      return "the gradient of " + tensor_name(parameter, i) +
             " is still the mean of an earlier step, and sharded gradients are not added to it: call zero_grad() "
             "before the backwards of each step";
    }
  }
  return "";
}

/// Looks for a fault of this rank. The reduction will tell all ranks of it. Also sets the members of `weight` that
/// depend on the losses. With double buffering, faults_ may still hold a fault of the last step.
void MultiNodeOptimizer::find_faults(StepWeight& weight) {
  if (!faults_->any()) faults_->keep(fault_of_frozen());
  if (!faults_->any()) faults_->keep(fault_of_scales());
  if (!faults_->any()) faults_->keep(fault_of_sharded(weight));
  if (!faults_->any()) {
    const auto changed = reduction_->gradients().watch().find_change();  // invariant 1; called once in each step
    if (changed) faults_->keep(change_of(*changed));
  }
  faults_->keep_error_of([&] { weights_->add_losses(weight, reduction_->gradients().watch()); });
  faults_->keep_error_of([&] { reduction_->check_promise(weight); });
}

/// Called after a reduction over `ranks`. If some of these ranks have a fault, all of them throw the fault of the
/// lowest rank that has one.
void MultiNodeOptimizer::throw_faults(const ReductionResult& reduced, Communicator& ranks) {
  // A rank that changes its set waits in agree_on_set() for this call. This rank makes no change, so the sets differ,
  // and all ranks throw here.
  if (reduced.set_changes) prove_same_set(set_->all(), "before this step", ranks);
  if (!reduced.any_fault) return;
  if (reduced.misweighed) faults_->keep_error_of(fail_assumed_weights);
  faults_->throw_first(ranks);
}

/// Invariant 2: true if the gradients are still the mean that reduce_gradients() has made.
bool MultiNodeOptimizer::is_reduced() {
  if (!reduced_) return false;
  const GradientWatch& watch = reduction_->gradients().watch();
  if (watch.added_to_reduced() || (shards_ && watch.backward_ran())) {
    throw UsageError(
        "a backward has added this rank's gradients to the mean that reduce_gradients() or clip_grad_norm() made: call "
        "them after the last backward of a step");
  }
  if (shards_) return true;
  if (reduced_->has_mean ? watch.keeps_reduced() : !watch.backward_ran()) return true;
  reduced_.reset();  // the program has dropped the mean without a step
  return false;
}

void MultiNodeOptimizer::reduce_weighted(const StepWeight& weight) {
  if (shards_) shards_->end_pass(ShardedParameters::PassOf::kStep);
  follow_parameter_set();
  if (is_reduced()) {
    weights_->check_same(reduced_->weight, weight);
    return;
  }
  Reduced reduced{.has_mean = false, .weight = weight};
  find_faults(reduced.weight);
  agree_on_frozen();
  ReductionResult result;
  wait("wait for gradients", [&] { result = reduction_->reduce(reduced.weight, faults_->any()); });
  throw_faults(result, *group());
  if (result.has_mean) reduce_experts(reduced.weight.factor / (result.divisor * comm_->size()));
  reduced.has_mean = take_pending() || result.has_mean;
  if (scaler_ && reduced.has_mean) reduced.finite = scaler_->unscale(trained_parameters());
  if (reduced.has_mean && reduced.finite) reduction_->commit();
  reduction_->gradients().watch().mark_reduced();
  reduced_ = reduced;
}

/// Warns if many steps in a row were left out because of an overflow. Only rank 0 warns, because all ranks leave out
/// the same steps.
void MultiNodeOptimizer::watch_overflows() {
  const std::int64_t skipped = scaler_->count_step();
  if (skipped == 0 || comm_->rank() != 0) return;
  const auto& parameters = reduction_->parameters();
  std::string where = "the gradients";
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].grad().defined() || at::isfinite(gradient_values(parameters[i])).all().item<bool>()) continue;
    where = "the gradient of " + tensor_name(parameters[i], i);
    break;
  }
  log_warning(std::to_string(skipped) + " steps in a row changed no parameter, as " + where +
              " is NaN or infinite; the loss scale has fallen to " + nlohmann::json(scaler_->scale()).dump() +
              ": if it is so at any scale, look for a division by 0, a root or logarithm of 0 in the loss, or train "
              "with --precision bf16 or fp32");
}

/// Invariant 5: calls the closure, reduces the gradients, runs the hooks, and returns the mean loss over ranks.
at::Tensor MultiNodeOptimizer::evaluate(const LossClosure& closure, const StepWeight& weight) {
  const at::AutoGradMode with_gradients(true);
  const double unit = weights_->unit();
  const at::Tensor loss = closure();
  weights_->set_unit(unit);  // because the closure's zero_grad() forgets the unit of float16 gradients
  if (!loss.defined() || loss.numel() != 1)
    throw ArgumentError("a closure must return a loss, a tensor of one element");
  reduce_weighted(weight);
  if (std::exchange(reduced_, std::nullopt)->has_mean) {
    for (const auto& [name, hook] : hooks_) hook(set_->trained());
  }
  std::array<double, 2> sums = {weight.own > 0 ? weight.own * loss.item<double>() : 0, weight.own};
  comm_->allreduce(std::span(sums));
  return at::full({}, sums[0] / sums[1], at::kDouble);  // all ranks get the same dtype and device
}

at::Tensor MultiNodeOptimizer::step(const LossClosure& closure, std::optional<double> samples) {
  const auto weight = weight_of(samples);
  if (!weight) throw ArgumentError("no rank has samples for the closure");
  if (!closure) throw ArgumentError("step() needs a closure");
  if (options_.double_buffering || local_ || scaler_ || shards_ || !experts_.empty()) {
    throw UsageError(
        "a step with a closure computes the loss several times with parameters that change between: it excludes double "
        "buffering, local steps, fp16, sharding and experts");
  }
  follow_parameter_set();
  const Trace::Scope scope(options_.trace.get(), "update", Trace::Lane::kCompute);
  const at::Tensor loss = actual_->step([&] { return evaluate(closure, *weight); });
  weights_->forget();
  check_->after_update(set_->all(), *comm_);
  leave_sparse_outside();
  return loss;
}

}  // namespace mn
