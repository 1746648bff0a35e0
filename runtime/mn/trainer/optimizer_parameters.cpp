// The set of parameters, which a program may change between steps, and what is kept of each of them.
//
// (1) What is new to the optimizer is broadcast once. Parameters that stay keep their residuals and velocities.
// (2) A parameter that was trained and is frozen keeps its place in the buffer of gradients: it is left out of the
//     reduction, and comes back without a message. A new set makes another buffer.
#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_set>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>
#include <mn/gradients/create_gradient_reduction.hpp>
#include <mn/gradients/step_weights.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/local_sgd.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn {
namespace {

std::optional<std::size_t> index_in(const std::vector<at::Tensor>& all, const at::Tensor& one) {
  const auto found = std::ranges::find_if(all, [&](const at::Tensor& each) { return each.is_same(one); });
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

/// Tensors called KIND.INDEX by the index of a parameter in `from`, by their index in `to`. Others are left out.
NamedTensors renumbered(const NamedTensors& state, const std::vector<at::Tensor>& from,
                        const std::vector<at::Tensor>& to) {
  NamedTensors result;
  for (const auto& [name, tensor] : state) {
    const std::size_t dot = name.rfind('.'), number = std::stoul(name.substr(dot + 1));
    const auto i = number < from.size() ? index_in(to, from[number]) : std::nullopt;
    if (i) result.emplace_back(name.substr(0, dot + 1) + std::to_string(*i), tensor);
  }
  return result;
}

bool are_same(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others) {
  return std::ranges::equal(some, others, [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); });
}

bool needs_gradient(const at::Tensor& parameter) { return parameter.requires_grad(); }

void check_devices(const std::vector<at::Tensor>& parameters, const Communicator& comm) {
  for (const at::Tensor& parameter : parameters) {
    if (parameter.device() == c10::Device(comm.device())) continue;
    throw ArgumentError("a parameter is on " + parameter.device().str() + ", but the communicator works on " +
                        comm.device().str() + ": call model->to(comm->device()) before the optimizer is made");
  }
}

}  // namespace

std::vector<at::Tensor> MultiNodeOptimizer::parameters() const {
  std::vector<at::Tensor> all;
  for (const auto& group : actual_->param_groups()) {
    all.insert(all.end(), group.params().begin(), group.params().end());
  }
  return all;
}

/// libtorch's modules list a parameter that two of them share twice. The groups keep the first.
void MultiNodeOptimizer::remove_repeats() {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (auto& group : actual_->param_groups()) {
    std::erase_if(group.params(), [&](const at::Tensor& p) { return !seen.insert(p.unsafeGetTensorImpl()).second; });
  }
}

void MultiNodeOptimizer::adopt(std::vector<at::Tensor> parameters) {
  // Those that stay have been the same on all ranks since they came.
  const std::vector<at::Tensor> before = reduction_ ? reduction_->parameters() : std::vector<at::Tensor>();
  std::vector<at::Tensor> fresh = parameters, reduced = differentiable(parameters);
  std::erase_if(fresh, [&](const at::Tensor& parameter) { return index_in(before, parameter).has_value(); });
  std::erase_if(reduced, [&](const at::Tensor& p) { return !p.requires_grad() && (local_ || !index_in(before, p)); });
  check_devices(reduced, *comm_);
  comm_->broadcast_data(fresh);
  // No error comes after this line: a set that can't be adopted leaves the optimizer as it was.
  ++adoptions_;
  earlier_bytes_ = bytes_sent();
  const std::vector<at::Tensor> sparse = sparse_parameters();
  NamedTensors kept = reduction_ ? renumbered(own_state(), before, parameters) : NamedTensors();
  // All parameters, frozen ones too: follow_parameter_set() compares with what the program's groups hold.
  known_ = std::move(parameters);
  local_.reset();
  has_looked_ = false;
  if (options_.local_steps > 1) {
    local_ = std::make_unique<LocalSgd>(reduced, comm_, options_.local_steps, options_.outer_momentum, options_.trace);
    local_->average_also(buffers_);
    // Each rank reduces its gradients alone.
    if (!alone_) alone_ = comm_->split(comm_->rank(), 0);
  }
  weights_->set_narrow(std::ranges::any_of(reduced, [](const auto& p) { return p.scalar_type() == at::kHalf; }));
  make_reduction(std::move(reduced), sparse);
  if (!before.empty()) load_rank_state(kept);
  look_for_frozen();
}

void MultiNodeOptimizer::make_reduction(std::vector<at::Tensor> parameters, const std::vector<at::Tensor>& sparse) {
  SparseGradients::Known known;
  for (const at::Tensor& parameter : parameters) known.push_back(index_in(sparse, parameter).has_value());
  // Gradients that no step has used carry what their losses weigh.
  GradientWatch::Backwards backwards;
  bool ran = false;
  if (reduction_) {
    const GradientWatch& watch = reduction_->gradients().watch();
    backwards = watch.backwards();
    ran = watch.backward_ran();
  }
  reduction_.reset();  // removes its hooks and views before the next one sets its own
  reduction_ = create_gradient_reduction(std::move(parameters), known, group(), options_);
  reduction_->gradients().watch().take_over(std::move(backwards), ran);
  if (scaler_) reduction_->averager().set_scale(scaler_->scale());
  reduction_->pause_while(no_sync_);
}

/// Those that are known for sparse gradients.
std::vector<at::Tensor> MultiNodeOptimizer::sparse_parameters() const {
  std::vector<at::Tensor> sparse;
  for (std::size_t i = 0; reduction_ && i < reduction_->parameters().size(); ++i) {
    if (reduction_->gradients().sparse().known()[i]) sparse.push_back(reduction_->parameters()[i]);
  }
  return sparse;
}

/// After a step: makes a reduction without room for the gradients that have turned out to be sparse.
void MultiNodeOptimizer::leave_sparse_outside() {
  if (!reduction_->gradients().is_too_large()) return;
  apply_pending();
  ++adoptions_;
  const NamedTensors residuals = reduction_->averager().state();
  earlier_bytes_ += reduction_->bytes_sent();
  make_reduction(reduction_->parameters(), sparse_parameters());
  reduction_->averager().load_state(residuals);
  look_for_frozen();
}

/// What of the reduction's parameters is trained, and what of all is not.
void MultiNodeOptimizer::look_for_frozen() {
  std::vector<bool> trained;
  bool changed = false;
  for (const at::Tensor& parameter : reduction_->parameters()) {
    changed = changed || reduction_->gradients().is_trained(trained.size()) != parameter.requires_grad();
    trained.push_back(parameter.requires_grad());
  }
  trained_ = reduction_->parameters();
  std::erase_if(trained_, std::not_fn(needs_gradient));
  frozen_ = differentiable(known_);
  std::erase_if(frozen_, needs_gradient);
  if (changed) reduction_->train_only(trained);
}

bool MultiNodeOptimizer::is_same_set() const {
  return are_same(parameters(), known_) && std::ranges::none_of(frozen_, needs_gradient) &&
         std::ranges::all_of(trained_, needs_gradient);
}

void MultiNodeOptimizer::follow_parameter_set() {
  check_alone();
  if (is_same_set()) return;
  if (reduction_->has_given_away()) {
    keep_fault_of([] { StepPromise::fail("parameters were added, frozen or unfrozen before that step"); });
  }
  std::vector<at::Tensor> now = parameters();
  const bool same = are_same(now, known_);
  if (!same) {
    remove_repeats();
    now = parameters();
  }
  // Gradients that no step has used stay; those that are under way are applied.
  const std::vector<at::Tensor> trained = differentiable(now);
  std::vector<at::Tensor> unused;
  for (const auto& parameter : trained) unused.push_back(std::exchange(parameter.mutable_grad(), {}));
  const bool has_buffers = same && !local_ && std::ranges::all_of(frozen_, [&](const at::Tensor& parameter) {
                             return !parameter.requires_grad() || index_in(reduction_->parameters(), parameter);
                           });
  known_.clear();  // if the new set can't be adopted, the next call tries again
  synchronize();
  for (std::size_t i = 0; i < trained.size(); ++i) trained[i].mutable_grad() = unused[i];
  if (!has_buffers) return adopt(std::move(now));
  known_ = std::move(now);
  ++adoptions_;
  look_for_frozen();
}

/// Not when it is made: an earlier optimizer may be about to go.
void MultiNodeOptimizer::check_alone() {
  if (std::exchange(has_looked_, true)) return;
  const auto shared = reduction_->gradients().taken_twice();
  if (!shared) return;
  throw UsageError(tensor_name(reduction_->parameters()[*shared], *shared) +
                   " is also another multi-node optimizer's, which moves the gradient to a buffer of its own: give " +
                   "each parameter to one optimizer, or destroy the one that is done");
}

NamedTensors MultiNodeOptimizer::own_state() const { return local_ ? local_->state() : reduction_->averager().state(); }

/// By the index in the groups, whatever is frozen now.
NamedTensors MultiNodeOptimizer::rank_state() const {
  return renumbered(own_state(), reduction_->parameters(), known_);
}

void MultiNodeOptimizer::load_rank_state(const NamedTensors& state) {
  const NamedTensors own = renumbered(state, known_, reduction_->parameters());
  if (local_) {
    local_->load_state(own);
  } else {
    reduction_->averager().load_state(own);
  }
}

}  // namespace mn
