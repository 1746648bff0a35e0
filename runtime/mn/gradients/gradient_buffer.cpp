#include <mn/gradients/gradient_buffer.hpp>

#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

namespace mn {
namespace {

void move_into(FlatBuffer& flat, std::size_t i, at::Tensor& grad) {
  if (grad.is_same(flat.view(i))) return;
  flat.let_go(flat.message_index(i));  // (3): a gradient that the program keeps moves out
  flat.view(i).copy_(grad);
  grad = flat.view(i);
}

/// Moves what a backward has just made into the buffer, unless it is sparse or has a graph of its own, or there is no
/// room.
void take_in(const at::Tensor& parameter, FlatBuffer& flat, std::size_t i) {
  auto& grad = parameter.mutable_grad();
  // A gradient with a graph (create_graph) must stay the tensor that the graph knows.
  if (!grad.defined() || grad.is_sparse() || grad.requires_grad() || grad.sizes() != flat.view(i).sizes()) return;
  const at::NoGradGuard no_grad;
  move_into(flat, i, grad);
}

}  // namespace

GradientBuffer::GradientBuffer(std::vector<at::Tensor> parameters, SparseGradients::Known sparse, Communicator& comm,
                               GradientWatch::Depth watch, std::span<const std::size_t> order,
                               DeviceSamples::Noted noted)
    : parameters_(std::move(parameters)),
      sparse_(parameters_, std::move(sparse), comm),
      outside_(sparse_.known()),
      is_trained_(parameters_.size(), true),
      watch_(std::make_shared<GradientWatch>(parameters_, watch)) {
  flat_ = std::make_shared<FlatBuffer>(inside(), StepAgreement::tail_count(parameters_.size(), comm), comm, order);
  watch_->look_at(*flat_, std::move(noted));
  forget_ready();
  const auto arrive = [all = parameters_, flat = flat_, watch = watch_](std::size_t i) {
    watch->arrived(i);
    take_in(all[i], *flat, i);
    watch->record(i);
  };
  hooks_ = std::make_unique<ReadyHooks>(parameters_, arrive, /*moves=*/true);
}

void GradientBuffer::train_only(std::vector<bool> parameters) {
  flat_->send_only(parameters);
  is_trained_ = std::move(parameters);
}

void GradientBuffer::clear() {
  for (const auto& parameter : parameters_) parameter.mutable_grad().reset();
  watch_->forget();
}

void GradientBuffer::scale(double factor) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& grad = parameters_[i].mutable_grad();
    // Not in place where autograd may share the values with other tensors.
    if (grad.defined()) grad = grad.is_sparse() ? grad.mul(factor) : grad.mul_(factor);
  }
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
  // A hook of the user's may have written to it after it was ready, in place or by another tensor.
  return parameters_[i].grad().is_same(view) && ready_version_[i] == view._version();
}

void GradientBuffer::forget_ready() {
  ready_version_.assign(parameters_.size(), std::nullopt);
  weighed_early_ = false;
}

void GradientBuffer::weigh_early(std::size_t i, double factor) {
  const at::NoGradGuard no_grad;
  flat_->view(i).mul_(factor);
  ready_version_[i] = flat_->view(i)._version();
  watch_->record(i);
  weighed_early_ = true;
}

void GradientBuffer::multiply(double factor) {
  if (!weighed_early_) return flat_->scale(factor);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_ready(i)) flat_->view(i).mul_(factor);  // the others have it from weigh_early()
  }
}

void GradientBuffer::collect_one(std::size_t i, StepAgreement& own) {
  auto& grad = parameters_[i].mutable_grad();
  const bool stays_outside = grad.defined() && (grad.is_sparse() || sparse_.known()[i]);
  if (grad.defined() && !stays_outside) {
    move_into(*flat_, i, grad);
    return own.add(i);
  }
  if (stays_outside) {
    own.outside.gradients[i] = grad.is_same(flat_->view(i)) ? grad.clone() : grad;
    if (!sparse_.known()[i]) own.add_new_sparse();
  }
  flat_->let_go(flat_->message_index(i));  // (3): as in move_into()
  flat_->view(i).zero_();                  // adds nothing to the other ranks' sum
}

StepAgreement GradientBuffer::collect(const StepWeight& weight, const StepAgreement::Signals& signals) {
  const at::NoGradGuard no_grad;
  StepAgreement own(weight, parameters_.size(), signals);
  own.outside.factor = weight.factor;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_trained_[i]) collect_one(i, own);
  }
  if (weight.factor != 1) multiply(weight.factor);
  // The agreement travels behind the gradients in the same buffer: a step needs no message more.
  own.write(flat_->tail());
  return own;
}

ReductionResult GradientBuffer::finish(FlatBuffer& reduced, const StepAgreement& agreement) {
  const at::NoGradGuard no_grad;
  const double divisor = reduced.without_rounding(agreement.divisor());
  const ReductionResult result = {
      .has_mean = divisor != 0, .any_fault = agreement.any_fault(), .misweighed = agreement.misweighed(divisor)};
  if (!result.has_mean) return result;
  if (divisor != 1) reduced.scale(1 / divisor);
  if (agreement.any_new_sparse()) sparse_.learn(agreement.outside);
  const auto outside = sparse_.mean(agreement.outside, divisor);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_trained_[i]) continue;
    // (2) None on every rank stays None, so that no rank's update touches the parameter.
    at::Tensor& grad = parameters_[i].mutable_grad();
    grad = agreement.has(i) ? reduced.view(i) : at::Tensor();
    const auto found = outside.find(i);
    if (found == outside.end()) continue;
    grad = grad.defined() ? grad.add_(found->second) : found->second;
  }
  return result;
}

}  // namespace mn
