#include <cmath>
#include <utility>

#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/train/gradient_buffer.hpp>
#include <mn/train/tensor.hpp>

namespace mn {

GradientBuffer::GradientBuffer(std::vector<at::Tensor> parameters, Communicator& comm,
                               std::span<const std::size_t> order)
    : parameters_(std::move(parameters)), versions_(parameters_.size()), attached_(parameters_.size()) {
  std::vector<at::Tensor> before;
  for (const auto& parameter : parameters_) {
    if (parameter.device() != c10::Device(comm.device())) {
      throw ArgumentError("a parameter is on " + parameter.device().str() + ", but the communicator works on " +
                          comm.device().str() + ": call model->to(comm->device()) before the optimizer is made");
    }
    before.push_back(parameter.grad());
  }
  flat_ = FlatBuffer(parameters_, tail_count(), comm, order);
  zero();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (before[i].defined()) parameters_[i].mutable_grad() = before[i];
  }
}

GradientBuffer& GradientBuffer::operator=(GradientBuffer&& other) noexcept {
  release();
  parameters_ = std::move(other.parameters_);
  flat_ = std::move(other.flat_);
  versions_ = std::move(other.versions_);
  attached_ = std::move(other.attached_);
  finished_ = other.finished_;
  return *this;
}

void GradientBuffer::zero() {
  flat_.zero();
  finished_ = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    versions_[i] = flat_.view(i)._version();
    attach(i, flat_.view(i));
  }
}

void GradientBuffer::attach(std::size_t i, const at::Tensor& view) {
  attached_[i] = view;
  auto& grad = parameters_[i].mutable_grad();
  if (!grad.is_same(view)) grad = view;
}

/// True if a backward (or the user) wrote this gradient since zero().
bool GradientBuffer::collect_one(std::size_t i) {
  const at::Tensor& view = flat_.view(i);
  auto& grad = parameters_[i].mutable_grad();
  if (grad.is_same(view)) return view._version() != versions_[i];
  const at::Tensor elsewhere = grad;
  attach(i, view);
  if (!elsewhere.defined()) {
    view.zero_();  // it may have been written before it was detached
    return false;
  }
  view.copy_(elsewhere.is_sparse() ? elsewhere.to_dense() : elsewhere);
  return true;
}

void GradientBuffer::collect(double weight, bool disturbed) {
  const at::NoGradGuard no_grad;
  const at::Tensor tail = at::zeros({flat_.tail().numel()}, at::kFloat);
  auto* numbers = tail.mutable_data_ptr<float>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) numbers[kNumbers + i] = collect_one(i) ? 1.0F : 0.0F;
  if (weight != 1) flat_.scale(weight);
  numbers[0] = static_cast<float>(weight);
  numbers[1] = disturbed ? 1.0F : 0.0F;
  flat_.tail().copy_(tail);
}

bool GradientBuffer::disturbed_anywhere(const FlatBuffer& reduced) { return reduced.tail()[1].item<float>() != 0; }

bool GradientBuffer::finish(FlatBuffer& reduced) {
  const at::NoGradGuard no_grad;
  const at::Tensor tail = reduced.tail().to(at::kCPU);
  const auto* numbers = tail.const_data_ptr<float>();
  const float mean_weight = numbers[0];
  if (mean_weight == 0) return false;
  const bool all_ones = std::abs(mean_weight - 1.0F) < 1e-6F;  // 1/size is rounded
  if (!all_ones) reduced.scale(1.0 / static_cast<double>(mean_weight));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (numbers[kNumbers + i] == 0) {
      parameters_[i].mutable_grad().reset();
    } else {
      attach(i, reduced.view(i));
    }
  }
  finished_ = true;
  return true;
}

void GradientBuffer::release() noexcept {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto& grad = parameters_[i].mutable_grad();
    const at::Tensor attached = std::exchange(attached_[i], {});
    if (!grad.defined() || !grad.is_same(attached)) continue;
    const bool written = finished_ || grad._version() != versions_[i];
    try {
      // Not another tensor: whoever holds this one keeps it too.
      if (written) grad.set_data(grad.clone());
    } catch (const std::exception& error) {
      log_error("gradient " + std::to_string(i) + " is lost with its buffer: " + error.what());
      grad.reset();
    }
    if (!written) grad.reset();
  }
}

}  // namespace mn
