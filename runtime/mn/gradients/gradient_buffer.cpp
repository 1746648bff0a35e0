#include <mn/gradients/gradient_buffer.hpp>

#include <algorithm>
#include <cassert>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>

#include <mn/tensor/factor.hpp>
#include <mn/tensor/multi_tensor.hpp>

namespace mn {
namespace {

void scale_gradients(const std::vector<at::Tensor>& parameters, double factor) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters) {
    at::Tensor& grad = parameter.mutable_grad();
    // A sparse gradient is not multiplied in place, because it may share its values with the autograd graph.
    if (grad.defined()) grad = grad.is_sparse() ? times_factor(grad, factor) : grad.mul_(exact_factor(factor));
  }
}

}  // namespace

GradientBuffer::GradientBuffer(std::vector<at::Tensor> parameters, SparseGradients::Flags sparse, Communicator& comm,
                               GradientWatch::Depth watch, std::span<const std::size_t> order,
                               DeviceSamples::ChangeNote note, bool moves)
    : parameters_(std::move(parameters)),
      sparse_(parameters_, std::move(sparse), comm),
      moves_(moves),
      outside_(moves ? sparse_.flags() : SparseGradients::Flags(parameters_.size(), true)),
      is_trained_(parameters_.size(), true),
      watch_(std::make_shared<GradientWatch>(parameters_, watch)) {
  flat_ = std::make_shared<FlatBuffer>(inside(), StepAgreement::tail_count(parameters_.size(), comm), comm, order);
  watch_->look_at(*flat_, std::move(note));
  forget_ready();
  // On a device each gradient first waits outside the buffer, so that one kernel can move many gradients. In debug mode
  // (Depth::kAll) no gradient waits, because the hook of each gradient reads its elements at once.
  const bool waits = moves_ && comm.device().type != DeviceType::kCpu && watch != GradientWatch::Depth::kAll;
  intake_ = std::make_shared<GradientIntake>(parameters_, flat_, watch_, waits);
  hooks_ = std::make_unique<ReadyHooks>(parameters_, [intake = intake_](std::size_t i) { intake->arrived(i); });
  const auto convert = [all = parameters_, watch = watch_](const LossUnit& unit, double factor) {
    if (!watch->follow(unit)) return;
    scale_gradients(all, factor);
    watch->record();
  };
  const auto is_narrow = [](const at::Tensor& parameter) { return parameter.scalar_type() == at::kHalf; };
  unit_follower_ = std::make_unique<UnitFollower>(std::ranges::any_of(parameters_, is_narrow), convert);
}

void GradientBuffer::train_only(std::vector<bool> parameters) {
  flat_->send_only(parameters);
  is_trained_ = std::move(parameters);
}

bool GradientBuffer::set_changes() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].requires_grad() != is_trained_[i]) return true;
  }
  return false;
}

void GradientBuffer::clear() {
  intake_->forget();
  for (const auto& parameter : parameters_) parameter.mutable_grad().reset();
  watch_->forget();
}

void GradientBuffer::scale(double factor) {
  scale_gradients(parameters_, factor);
  watch_->record();
}

bool GradientBuffer::mark_ready(std::size_t i) {
  const at::Tensor& view = flat_->view(i);
  if (is_ready(i) || !(intake_->is_waiting(i) || parameters_[i].grad().is_same(view))) return false;
  ready_version_[i] = view._version();
  return true;
}

bool GradientBuffer::unchanged_since_ready(std::size_t i) const {
  if (is_outside(i) || !is_trained_[i]) return true;
  const at::Tensor& view = flat_->view(i);
  // If the program has written to the gradient or replaced it since mark_ready(), the version or the tensor differs.
  return parameters_[i].grad().is_same(view) && ready_version_[i] == view._version();
}

void GradientBuffer::forget_ready() {
  ready_version_.assign(parameters_.size(), std::nullopt);
  weighed_early_ = false;
}

void GradientBuffer::weigh_early(std::size_t i, double factor) {
  assert(is_ready(i));
  weighed_early_ = true;
  if (intake_->weigh(i, factor)) return;
  const at::NoGradGuard no_grad;
  flat_->view(i).mul_(exact_factor(factor));
  ready_version_[i] = flat_->view(i)._version();
  watch_->record(i);
}

void GradientBuffer::multiply(double factor) {
  if (!weighed_early_) return flat_->scale(factor);
  std::vector<TensorCopy> together;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_ready(i)) continue;  // weigh_early() has multiplied the ready gradients
    const at::Tensor& view = flat_->view(i);
    view.is_cpu() ? void(view.mul_(exact_factor(factor))) : together.push_back({view, view, factor});
  }
  if (!together.empty()) copy_on_device(together);
}

/// Puts gradient i into the buffer if it belongs there, and returns true. Otherwise returns false; if gradient i
/// exists, it is now in own.outside.
bool GradientBuffer::collect_one(std::size_t i, StepAgreement& own) {
  const at::Tensor& grad = parameters_[i].grad();
  const bool stays_outside = grad.defined() && (!moves_ || grad.is_sparse() || sparse_.flags()[i]);
  if (grad.defined() && !stays_outside) {
    intake_->take(i);
    own.add(i);
    return true;
  }
  if (stays_outside) {
    own.outside.gradients[i] = grad.is_same(flat_->view(i)) ? grad.clone() : grad;
    if (moves_ && !sparse_.flags()[i]) own.add_new_sparse();
  }
  return false;
}

StepAgreement GradientBuffer::collect(const StepWeight& weight, const StepAgreement::Signals& signals, double share) {
  const at::NoGradGuard no_grad;
  StepAgreement own(weight, parameters_.size(), signals);
  own.outside.factor = weight.factor;
  intake_->flush();
  std::vector<at::Tensor> missing;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_trained_[i] || collect_one(i, own) || !moves_) continue;
    flat_->let_go(flat_->message_index(i));  // invariant 3: the program may keep the old gradient
    missing.push_back(flat_->view(i));
  }
  intake_->flush();
  if (!missing.empty()) at::_foreach_zero_(missing);  // adds 0 to the sum over ranks
  if (take_set_change()) own.add_set_change();
  if (weight.factor * share != 1) multiply(weight.factor * share);
  // On CPUs the calling rank's weight and flags are sent as the last elements of the buffer; therefore they cost no
  // message. On a GPU the buffer has no such elements, and write() does nothing.
  own.write(flat_->tail());
  return own;
}

ReductionResult GradientBuffer::finish(FlatBuffer& reduced, const StepAgreement& agreement) {
  const at::NoGradGuard no_grad;
  const double divisor = reduced.without_rounding(agreement.divisor());
  const ReductionResult result = {.has_mean = divisor != 0,
                                  .any_fault = agreement.any_fault(),
                                  .set_changes = agreement.any_set_change(),
                                  .divisor = divisor,
                                  .misweighed = agreement.misweighed(divisor)};
  if (!result.has_mean) return result;
  if (divisor != 1) reduced.scale(1 / divisor);
  if (agreement.any_new_sparse()) sparse_.learn(agreement.outside);
  const auto outside = sparse_.mean(agreement.outside, divisor);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_trained_[i]) continue;
    // Invariant 2: if no rank has a gradient of this parameter, the gradient stays None. Therefore no rank updates the
    // parameter.
    at::Tensor& grad = parameters_[i].mutable_grad();
    grad = agreement.has(i) ? reduced.view(i) : at::Tensor();
    const auto found = outside.find(i);
    if (found == outside.end()) continue;
    grad = grad.defined() ? grad.add_(found->second) : found->second;
  }
  return result;
}

}  // namespace mn
