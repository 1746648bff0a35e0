#include <mn/gradients/gradient_buffer.hpp>

#include <algorithm>
#include <cassert>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <mn/tensor/factor.hpp>

namespace mn {
namespace {

void move_into(FlatBuffer& flat, std::size_t i, at::Tensor& grad) {
  if (grad.is_same(flat.view(i))) return;
  flat.let_go(flat.message_index(i));  // (3): a gradient that the program keeps moves out of the buffer
  flat.view(i).copy_(grad);
  grad = flat.view(i);
}

/// Moves into the buffer a gradient that backward has just made, unless the gradient is sparse, has a graph or does not
/// fit.
void take_in(const at::Tensor& parameter, FlatBuffer& flat, std::size_t i) {
  auto& grad = parameter.mutable_grad();
  // The graph of a gradient (create_graph) refers to the tensor, which must therefore stay.
  if (!grad.defined() || grad.is_sparse() || grad.requires_grad() || grad.sizes() != flat.view(i).sizes()) return;
  const at::NoGradGuard no_grad;
  move_into(flat, i, grad);
}

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
                               DeviceSamples::ChangeNote note)
    : parameters_(std::move(parameters)),
      sparse_(parameters_, std::move(sparse), comm),
      outside_(sparse_.flags()),
      is_trained_(parameters_.size(), true),
      watch_(std::make_shared<GradientWatch>(parameters_, watch)) {
  flat_ = std::make_shared<FlatBuffer>(inside(), StepAgreement::tail_count(parameters_.size(), comm), comm, order);
  watch_->look_at(*flat_, std::move(note));
  forget_ready();
  const auto arrive = [all = parameters_, flat = flat_, watch = watch_](std::size_t i) {
    watch->arrived(i);
    take_in(all[i], *flat, i);
    watch->record(i);
  };
  hooks_ = std::make_unique<ReadyHooks>(parameters_, arrive);
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
  for (const auto& parameter : parameters_) parameter.mutable_grad().reset();
  watch_->forget();
}

void GradientBuffer::scale(double factor) {
  scale_gradients(parameters_, factor);
  watch_->record();
}

bool GradientBuffer::mark_ready(std::size_t i) {
  const at::Tensor& view = flat_->view(i);
  if (is_ready(i) || !parameters_[i].grad().is_same(view)) return false;
  ready_version_[i] = view._version();
  return true;
}

bool GradientBuffer::unchanged_since_ready(std::size_t i) const {
  if (is_outside(i) || !is_trained_[i]) return true;
  const at::Tensor& view = flat_->view(i);
  // A hook of the program may have written to the gradient or replaced it.
  return parameters_[i].grad().is_same(view) && ready_version_[i] == view._version();
}

void GradientBuffer::forget_ready() {
  ready_version_.assign(parameters_.size(), std::nullopt);
  weighed_early_ = false;
}

void GradientBuffer::weigh_early(std::size_t i, double factor) {
  assert(is_ready(i));
  const at::NoGradGuard no_grad;
  flat_->view(i).mul_(exact_factor(factor));
  ready_version_[i] = flat_->view(i)._version();
  watch_->record(i);
  weighed_early_ = true;
}

void GradientBuffer::multiply(double factor) {
  if (!weighed_early_) return flat_->scale(factor);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_ready(i)) flat_->view(i).mul_(exact_factor(factor));  // weigh_early() has multiplied the ready gradients
  }
}

void GradientBuffer::collect_one(std::size_t i, StepAgreement& own) {
  auto& grad = parameters_[i].mutable_grad();
  const bool stays_outside = grad.defined() && (grad.is_sparse() || sparse_.flags()[i]);
  if (grad.defined() && !stays_outside) {
    move_into(*flat_, i, grad);
    return own.add(i);
  }
  if (stays_outside) {
    own.outside.gradients[i] = grad.is_same(flat_->view(i)) ? grad.clone() : grad;
    if (!sparse_.flags()[i]) own.add_new_sparse();
  }
  flat_->let_go(flat_->message_index(i));  // (3): as in move_into()
  flat_->view(i).zero_();                  // adds 0 to the sum over ranks
}

StepAgreement GradientBuffer::collect(const StepWeight& weight, const StepAgreement::Signals& signals) {
  const at::NoGradGuard no_grad;
  StepAgreement own(weight, parameters_.size(), signals);
  own.outside.factor = weight.factor;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_trained_[i]) collect_one(i, own);
  }
  if (std::exchange(announces_change_, false) || set_changes()) own.add_set_change();
  if (weight.factor != 1) multiply(weight.factor);
  // The agreement travels in the buffer's tail, which costs no message.
  own.write(flat_->tail());
  return own;
}

ReductionResult GradientBuffer::finish(FlatBuffer& reduced, const StepAgreement& agreement) {
  const at::NoGradGuard no_grad;
  const double divisor = reduced.without_rounding(agreement.divisor());
  const ReductionResult result = {.has_mean = divisor != 0,
                                  .any_fault = agreement.any_fault(),
                                  .set_changes = agreement.any_set_change(),
                                  .misweighed = agreement.misweighed(divisor)};
  if (!result.has_mean) return result;
  if (divisor != 1) reduced.scale(1 / divisor);
  if (agreement.any_new_sparse()) sparse_.learn(agreement.outside);
  const auto outside = sparse_.mean(agreement.outside, divisor);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_trained_[i]) continue;
    // (2): a gradient that no rank has stays None, so no rank's update touches the parameter.
    at::Tensor& grad = parameters_[i].mutable_grad();
    grad = agreement.has(i) ? reduced.view(i) : at::Tensor();
    const auto found = outside.find(i);
    if (found == outside.end()) continue;
    grad = grad.defined() ? grad.add_(found->second) : found->second;
  }
  return result;
}

}  // namespace mn
