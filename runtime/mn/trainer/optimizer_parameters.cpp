// Makes the optimizer follow its parameter set, which a program may change between steps.
//
// (1) A new parameter is broadcast once. Parameters that stay in the set keep their residuals and velocities.
// (2) If a trained parameter becomes frozen, it keeps its room in the buffer of gradients, and the reduction leaves it
//     out. A new set of parameters needs a new buffer.
// (3) If one rank alone changed its set, the ranks would mix up gradients or wait forever. Therefore, before the
//     change, the rank makes one more reduction with the old set. The gradients in it are zeros (with local SGD, the
//     reduction is an average), and the reduction tells all ranks of the change. If all ranks make the same change, the
//     set changes; otherwise all ranks throw.
#include <mn/trainer/optimizer.hpp>

#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>
#include <mn/gradients/create_gradient_reduction.hpp>
#include <mn/gradients/step_weights.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/sharding/sharded_parameters.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/tensor/weighted_loss.hpp>
#include <mn/trainer/local_sgd.hpp>
#include <mn/trainer/parameter_check.hpp>
#include <mn/trainer/parameter_set.hpp>
#include <mn/trainer/step_faults.hpp>

namespace mn {
namespace {

std::mutex living_mutex;
std::vector<const MultiNodeOptimizer*> living;  // all multi-node optimizers of this process

void check_devices(const std::vector<at::Tensor>& parameters, const Communicator& comm) {
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.requires_grad() || parameter.device() == c10::Device(comm.device())) continue;
    throw ArgumentError("a parameter is on " + parameter.device().str() + ", but the communicator works on " +
                        comm.device().str() + ": call model->to(comm->device()) before the optimizer is made");
  }
}

}  // namespace

void MultiNodeOptimizer::adopt(std::vector<at::Tensor> parameters) {
  // Invariant 1: only new parameters are broadcast, because parameters that stay in the set are equal on all ranks
  // already.
  const std::vector<at::Tensor> before = reduction_ ? reduction_->parameters() : std::vector<at::Tensor>();
  std::vector<at::Tensor> fresh = parameters, reduced = differentiable(parameters);
  std::erase_if(fresh, [&](const at::Tensor& parameter) { return index_in(before, parameter).has_value(); });
  const bool shards = options_.shard.what != Shard::kNone;  // frozen parameters, too
  std::erase_if(reduced,
                [&](const at::Tensor& p) { return !p.requires_grad() && !shards && (local_ || !index_in(before, p)); });
  check_devices(reduced, *comm_);
  comm_->broadcast_data(fresh);
  if (!reduction_) prove_same_set(parameters, "at the start", *comm_);
  // From here on, members change. They do not change earlier, because the checks above may throw.
  ++adoptions_;
  earlier_bytes_ = bytes_sent();
  const std::vector<at::Tensor> sparse = sparse_parameters();
  NamedTensors kept = reduction_ ? renumbered(rank_state(), set_->all(), parameters) : NamedTensors();
  const bool is_first = !reduction_;
  // The set contains frozen parameters, too, because follow_parameter_set() compares the set with all parameters of the
  // program's groups.
  set_->adopt(std::move(parameters));
  take_experts(reduced);
  local_.reset();
  has_looked_ = false;
  if (options_.local_steps > 1) {
    local_ = std::make_unique<LocalSgd>(reduced, comm_, options_.local_steps, options_.outer_momentum, options_.trace);
    local_->average_also(buffers_);
    // With local SGD each rank reduces its gradients alone, so its reduction gets a communicator of one rank.
    if (!alone_) alone_ = comm_->split(comm_->rank(), 0);
  }
  weights_->set_narrow(std::ranges::any_of(reduced, [](const auto& p) { return p.scalar_type() == at::kHalf; }));
  if (shards) shard(reduced);
  make_reduction(std::move(reduced), sparse);
  if (is_first) {
    const std::lock_guard lock(living_mutex);
    living.push_back(this);
    entry_ = std::shared_ptr<void>(nullptr, [this](void*) {
      const std::lock_guard end(living_mutex);
      std::erase(living, this);
    });
  } else {
    load_rank_state(kept);
  }
  look_for_frozen();
}

/// Divides the parameters among the ranks. The wrapped optimizer then updates this rank's pieces.
void MultiNodeOptimizer::shard(const std::vector<at::Tensor>& parameters) {
  if (shards_) {
    throw UsageError(
        "parameters cannot join a sharded optimizer (--shard): give it all parameters at the start, and freeze those "
        "that train later");
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].scalar_type() != at::kHalf) continue;
    throw UsageError(
        tensor_name(parameters[i], i) +
        " is float16, and parameters of float16 cannot be sharded: convert the model to float32 or bfloat16 "
        "(--precision fp16 keeps float32 parameters)");
  }
  shards_ = std::make_shared<ShardedParameters>(parameters, comm_, options_.shard);
  for (std::size_t i = 0; i < parameters.size(); ++i) set_->replace(parameters[i], shards_->pieces()[i]);
}

void MultiNodeOptimizer::make_reduction(std::vector<at::Tensor> parameters, const std::vector<at::Tensor>& sparse) {
  SparseGradients::Flags is_sparse;
  for (const at::Tensor& parameter : parameters) is_sparse.push_back(index_in(sparse, parameter).has_value());
  // The GradientWatch of the new buffer needs the weights of the losses that made the present gradients.
  GradientWatch::Backwards backwards;
  bool ran = false;
  if (reduction_) {
    const GradientWatch& watch = reduction_->gradients().watch();
    backwards = watch.backwards();
    ran = watch.backward_ran();
  }
  reduction_.reset();  // deletes the old hooks and views before there are new ones
  reduction_ = shards_ ? create_gradient_reduction(shards_, comm_, *weights_, options_)
                       : create_gradient_reduction(std::move(parameters), is_sparse, group(), options_);
  reduction_->gradients().watch().take_over(std::move(backwards), ran);
  if (scaler_) reduction_->averager().set_scale(scaler_->scale());
  reduction_->pause_while(no_sync_);
}

/// Returns the parameters whose gradients have turned out to be sparse in a backward pass.
std::vector<at::Tensor> MultiNodeOptimizer::sparse_parameters() const {
  std::vector<at::Tensor> sparse;
  for (std::size_t i = 0; reduction_ && i < reduction_->parameters().size(); ++i) {
    if (reduction_->gradients().sparse().flags()[i]) sparse.push_back(reduction_->parameters()[i]);
  }
  return sparse;
}

/// Called after a step. If the buffer of gradients is too large because some gradients have turned out to be sparse,
/// makes a new reduction, whose buffer has no room for these gradients.
void MultiNodeOptimizer::leave_sparse_outside() {
  if (!reduction_->gradients().is_too_large()) return;
  ReductionResult result;
  wait("wait for gradients", [&] { result = reduction_->flush(); });
  throw_faults(result, *group());
  if (result.has_mean) {
    pending_.emplace();
    for (const auto& parameter : reduction_->parameters()) {
      pending_->push_back(std::exchange(parameter.mutable_grad(), {}));
    }
  }
  ++adoptions_;
  const NamedTensors residuals = reduction_->averager().state();
  earlier_bytes_ += reduction_->bytes_sent();
  make_reduction(reduction_->parameters(), sparse_parameters());
  reduction_->averager().load_state(residuals);
  look_for_frozen();
}

/// Collective. Invariant 3: all ranks agree that `now` is the new set of parameters, or all throw. Gradients stay
/// unchanged.
void MultiNodeOptimizer::agree_on_set(const std::vector<at::Tensor>& now) {
  const std::vector<at::Tensor>& parameters = reduction_->parameters();
  std::vector<at::Tensor> unused, returning;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    unused.push_back(std::exchange(parameters[i].mutable_grad(), {}));
    if (parameters[i].requires_grad() && !reduction_->gradients().is_trained(i)) returning.push_back(parameters[i]);
  }
  ReductionResult result;
  const std::string change = local_ ? std::to_string(local_->steps()) + " steps after an average" : "in this step";
  wait("wait for gradients", [&] {
    if (local_) {
      result = local_->announce_set_change();
      return;
    }
    reduction_->gradients().announce_set_change();
    result = reduction_->reduce({.own = 0, .divisor = 0}, faults_->any());
    if (options_.double_buffering) result = reduction_->flush();
  });
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = unused[i];
  prove_same_set(now, change, *comm_);
  if (result.misweighed) faults_->keep_error_of(fail_assumed_weights);
  if (local_ || result.any_fault) faults_->throw_first(*comm_);
  if (shards_) return;  // each rank has the only copy of its pieces
  if (const auto different = find_difference(returning, *comm_, *comm_)) {
    const at::Tensor& returned = returning[different->index];
    throw UsageError(tensor_name(returned, *index_in(parameters, returned)) +
                     ", which was frozen and is trained again, on " + different->ranks +
                     " has other values than on the other ranks: call comm->broadcast_data() for the parameters that " +
                     "the program changes while they are frozen");
  }
}

/// Called before a reduction. Invariant 3: all ranks agree on the parameters that the program has frozen, or all throw.
void MultiNodeOptimizer::agree_on_frozen() {
  if (!reduction_->gradients().set_changes()) return;
  agree_on_set(set_->all());
  look_for_frozen();
  reduction_->gradients().watch().record();  // because agree_on_set() has moved the gradients
}

/// Called once all ranks have agreed on the frozen parameters: tells the reduction to leave out parameters without
/// requires_grad.
void MultiNodeOptimizer::look_for_frozen() {
  std::vector<bool> trained;
  bool changed = false;
  for (const at::Tensor& parameter : reduction_->parameters()) {
    changed = changed || reduction_->gradients().is_trained(trained.size()) != parameter.requires_grad();
    trained.push_back(parameter.requires_grad());
  }
  set_->sort(reduction_->parameters());
  if (changed) reduction_->train_only(trained);
}

void MultiNodeOptimizer::follow_parameter_set() { set_->is_current() ? check_alone() : change_set(false); }

/// The step calls this function if another rank changes its set before the step. This rank makes the same change, or
/// all ranks throw.
void MultiNodeOptimizer::join_set_change() {
  if (!set_->is_current()) return change_set(false);
  apply_pending();
  agree_on_set(set_->all());
}

/// Changes the set to the parameters that are now in the groups. If `before_step` is true, zero_grad() has called this
/// function; ranks without a change may already be in a step.
void MultiNodeOptimizer::change_set(bool before_step) {
  if (reduction_->has_given_away() || reduction_->gradients().weighed_early()) {
    faults_->keep_error_of([] { StepPromise::fail("parameters were added, frozen or unfrozen before that step"); });
  }
  std::vector<at::Tensor> now = set_->listed();
  const bool same = are_same(now, set_->all());
  if (!same) {
    set_->remove_repeats();
    now = set_->listed();
  }
  // Gradients that no reduction has used are put back at the end of this function. If a reduction of gradients is under
  // way, these gradients are applied.
  const std::vector<at::Tensor> trained = differentiable(now);
  std::vector<at::Tensor> unused, holders = trained;
  for (const at::Tensor& parameter : same ? std::vector<at::Tensor>() : reduction_->parameters()) {
    if (!index_in(trained, parameter)) holders.push_back(parameter);  // now perhaps another optimizer's
  }
  for (const auto& parameter : holders) unused.push_back(std::exchange(parameter.mutable_grad(), {}));
  const bool has_buffers = same && !local_ && std::ranges::all_of(set_->frozen(), [&](const at::Tensor& parameter) {
                             return !parameter.requires_grad() || index_in(reduction_->parameters(), parameter);
                           });
  if (!has_buffers) {  // else the ranks agree in the reduction of the step
    if (before_step) weights_->announce_set_change();
    apply_pending();
    faults_->keep_error_of([&] { check_devices(trained, *comm_); });
    agree_on_set(now);
  }
  synchronize();
  for (std::size_t i = 0; i < holders.size(); ++i) holders[i].mutable_grad() = unused[i];
  if (!has_buffers) {
    adopt(std::move(now));
    check_alone();
    return;
  }
  set_->adopt(std::move(now));
  ++adoptions_;
  set_->sort(reduction_->parameters());
}

/// Throws UsageError if another optimizer has a parameter of this one. The check is not in the constructor, because
/// until the first step the program may still destroy the other optimizer, or remove the parameter from its groups.
void MultiNodeOptimizer::check_alone() {
  if (std::exchange(has_looked_, true)) return;
  const std::vector<at::Tensor>& parameters = reduction_->parameters();
  std::unordered_set<const c10::TensorImpl*> others;
  {
    const std::lock_guard lock(living_mutex);
    for (const auto* const other : living) {
      if (other != this) others.merge(other->moved());
    }
  }
  const auto shared =
      std::ranges::find_if(parameters, [&](const at::Tensor& p) { return others.contains(p.unsafeGetTensorImpl()); });
  if (shared == parameters.end()) return;
  throw UsageError(tensor_name(*shared, static_cast<std::size_t>(shared - parameters.begin())) +
                   " is also another multi-node optimizer's, which moves the gradient to a buffer of its own: give " +
                   "each parameter to one optimizer, or destroy the one that is done");
}

/// Returns the parameters in the groups whose gradients the reduction has moved to its buffer.
std::unordered_set<const c10::TensorImpl*> MultiNodeOptimizer::moved() const {
  std::unordered_set<const c10::TensorImpl*> listed, result;
  for (const at::Tensor& parameter : set_->listed()) listed.insert(parameter.unsafeGetTensorImpl());
  for (const at::Tensor& parameter : reduction_->parameters()) {
    if (listed.contains(parameter.unsafeGetTensorImpl())) result.insert(parameter.unsafeGetTensorImpl());
  }
  return result;
}

NamedTensors MultiNodeOptimizer::own_state() const { return local_ ? local_->state() : reduction_->averager().state(); }

/// Each tensor's name contains the index of its parameter in the groups. The index counts frozen parameters, too.
NamedTensors MultiNodeOptimizer::rank_state() const {
  NamedTensors state = renumbered(own_state(), reduction_->parameters(), set_->all());
  state.insert(state.end(), left_out_.begin(), left_out_.end());
  return state;
}

void MultiNodeOptimizer::load_rank_state(const NamedTensors& state) {
  const NamedTensors own = renumbered(state, set_->all(), reduction_->parameters());
  std::vector<at::Tensor> others = set_->all();  // parameters in the reduction become undefined here
  for (at::Tensor& each : others) {
    if (index_in(reduction_->parameters(), each)) each = at::Tensor();
  }
  left_out_ = renumbered(state, others, set_->all());
  if (local_) {
    local_->load_state(own);
  } else {
    reduction_->averager().load_state(own);
  }
}

}  // namespace mn
