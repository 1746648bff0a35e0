#include <cmath>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/gradients/gradient_buffer.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

constexpr double kWeightRounding = 1e-5;  // of a mean weight that has traveled as float32

void move_into(const at::Tensor& view, at::Tensor& grad) {
  if (grad.is_same(view)) return;
  view.copy_(grad.is_sparse() ? grad.to_dense() : grad);
  grad = view;
}

/// Moves what a backward has just made into the buffer, unless it is sparse or has a graph of its own.
void take_in(const at::Tensor& parameter, const at::Tensor& view) {
  auto& grad = parameter.mutable_grad();
  if (!grad.defined() || grad.is_sparse() || grad.requires_grad()) return;
  const at::NoGradGuard no_grad;
  move_into(view, grad);
}

}  // namespace

GradientBuffer::GradientBuffer(std::vector<at::Tensor> parameters, Communicator& comm, GradientWatch::Depth watch,
                               std::span<const std::size_t> order)
    : parameters_(std::move(parameters)), watch_(std::make_shared<GradientWatch>(parameters_, watch)) {
  for (const auto& parameter : parameters_) {
    if (parameter.device() != c10::Device(comm.device())) {
      throw ArgumentError("a parameter is on " + parameter.device().str() + ", but the communicator works on " +
                          comm.device().str() + ": call model->to(comm->device()) before the optimizer is made");
    }
  }
  flat_ = FlatBuffer(parameters_, tail_count(), comm, order);
  forget_ready();
  hooks_ = std::make_unique<ReadyHooks>(parameters_, [all = parameters_, flat = flat_, watch = watch_](std::size_t i) {
    watch->arrived(i);
    take_in(all[i], flat.view(i));
    watch->record(i);
  });
}

GradientBuffer& GradientBuffer::operator=(GradientBuffer&& other) noexcept {
  release();
  hooks_ = std::move(other.hooks_);
  parameters_ = std::move(other.parameters_);
  flat_ = std::move(other.flat_);
  means_ = std::move(other.means_);
  ready_version_ = std::move(other.ready_version_);
  weighed_early_ = other.weighed_early_;
  weight_ = other.weight_;
  weighed_unevenly_ = other.weighed_unevenly_;
  watch_ = std::move(other.watch_);
  return *this;
}

void GradientBuffer::clear() {
  for (const auto& parameter : parameters_) parameter.mutable_grad().reset();
  watch_->forget();
}

void GradientBuffer::scale(double factor) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    parameters_[i].mutable_grad().mul_(factor);
    watch_->record(i);
  }
}

bool GradientBuffer::mark_ready(std::size_t i) {
  const at::Tensor& view = flat_.view(i);
  if (is_ready(i) || !parameters_[i].grad().is_same(view)) return false;
  ready_version_[i] = view._version();
  return true;
}

bool GradientBuffer::unchanged_since_ready(std::size_t i) const {
  const at::Tensor& view = flat_.view(i);
  return parameters_[i].grad().is_same(view) && ready_version_[i] == view._version();
}

void GradientBuffer::forget_ready() {
  ready_version_.assign(parameters_.size(), std::nullopt);
  weighed_early_ = false;
}

void GradientBuffer::weigh_early(std::size_t i, double factor) {
  const at::NoGradGuard no_grad;
  flat_.view(i).mul_(factor);
  ready_version_[i] = flat_.view(i)._version();
  watch_->record(i);
  weighed_early_ = true;
}

void GradientBuffer::multiply(double factor) {
  if (!weighed_early_) return flat_.scale(factor);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_ready(i)) flat_.view(i).mul_(factor);
  }
}

/// True if this rank has the gradient.
bool GradientBuffer::collect_one(std::size_t i) {
  const at::Tensor& view = flat_.view(i);
  auto& grad = parameters_[i].mutable_grad();
  if (!grad.defined()) {
    view.zero_();
    return false;
  }
  move_into(view, grad);
  return true;
}

void GradientBuffer::collect(double weight, double factor, bool disturbed) {
  const at::NoGradGuard no_grad;
  const at::Tensor tail = at::zeros({flat_.tail().numel()}, at::kDouble);
  auto* numbers = tail.mutable_data_ptr<double>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) numbers[kNumbers + i] = collect_one(i) ? 1 : 0;
  if (factor != 1) multiply(factor);
  weight_ = weight;
  numbers[0] = weight;
  numbers[1] = disturbed ? 1 : 0;
  flat_.tail().copy_(tail);
}

bool GradientBuffer::disturbed_anywhere(const FlatBuffer& reduced) { return reduced.tail()[1].item<float>() != 0; }

bool GradientBuffer::finish(FlatBuffer& reduced) {
  const at::NoGradGuard no_grad;
  const at::Tensor tail = reduced.tail().to(at::kCPU, at::kDouble);
  const auto* numbers = tail.const_data_ptr<double>();
  const double weight = reduced.mean_weight(numbers[0]);
  weighed_unevenly_ = std::abs(weight - weight_) > kWeightRounding * weight;
  if (weight == 0) return false;
  if (weight != 1) reduced.scale(1 / weight);
  means_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    means_.push_back(reduced.view(i));
    parameters_[i].mutable_grad() = numbers[kNumbers + i] == 0 ? at::Tensor() : means_[i];
  }
  return true;
}

void GradientBuffer::release() noexcept {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto& grad = parameters_[i].mutable_grad();
    const bool is_here = grad.is_same(flat_.view(i)) || (!means_.empty() && grad.is_same(means_[i]));
    if (!grad.defined() || !is_here) continue;
    try {
      // The same tensor: others may hold it.
      grad.set_data(grad.clone());
    } catch (const std::exception& error) {
      log_error("gradient " + std::to_string(i) + " is lost with its buffer: " + error.what());
      grad.reset();
    }
  }
}

}  // namespace mn
