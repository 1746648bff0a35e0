#include <mn/gradients/gradient_intake.hpp>

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <mn/tensor/multi_tensor.hpp>

namespace mn {
namespace {

constexpr std::size_t kMostWaiting = std::size_t{64} << 20;  // bytes

c10::Stream stream_of(const at::Tensor& tensor) {
  return c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
}

}  // namespace

GradientIntake::GradientIntake(std::vector<at::Tensor> parameters, std::shared_ptr<FlatBuffer> flat,
                               std::shared_ptr<GradientWatch> watch, bool waits)
    : parameters_(std::move(parameters)),
      flat_(std::move(flat)),
      watch_(std::move(watch)),
      waits_(waits),
      waiting_factor_(parameters_.size()) {}

void GradientIntake::arrived(std::size_t i) {
  const int task = torch::autograd::get_current_graph_task_id();
  // When backward ends, the watch reads the buffer; therefore the waiting gradients must move into the buffer before.
  // For this reason the first gradient of a backward registers flush() here, before the watch registers its own
  // function.
  if (waits_ && std::exchange(task_, task) != task) {
    torch::autograd::Engine::get_default_engine().queue_callback([self = shared_from_this()] { self->flush(); });
  }
  watch_->arrived(i);
  if (fits(i)) take(i);
  watch_->record(i);
}

/// True if gradient i can become a view of the buffer. A gradient that has an autograd graph (create_graph) cannot,
/// because the graph refers to the gradient's present tensor.
bool GradientIntake::fits(std::size_t i) const {
  const at::Tensor& grad = parameters_[i].grad();
  return grad.defined() && !grad.is_sparse() && !grad.requires_grad() && grad.sizes() == flat_->view(i).sizes();
}

void GradientIntake::take(std::size_t i) {
  at::Tensor& grad = parameters_[i].mutable_grad();
  if (is_waiting(i) || grad.is_same(flat_->view(i))) return;
  const at::NoGradGuard no_grad;
  flat_->let_go(flat_->message_index(i));  // invariant 3: the program may keep the old gradient
  if (!waits_ || !fits(i)) {
    flat_->view(i).copy_(grad);
    grad = flat_->view(i);
    return;
  }
  // Moves the gradients that are waiting already, before gradient i begins to wait. Gradient i itself must not move
  // yet, because a later hook may call weigh(i).
  if (waiting_bytes_ >= std::min(kMostWaiting, flat_->bytes() / 3)) flush();
  wait(i);
  waiting_bytes_ += grad.nbytes();
}

void GradientIntake::wait(std::size_t i) {
  const c10::Stream stream = stream_of(flat_->view(i));
  if (stream_.value_or(stream) != stream) flush();  // invariant 2: one stream writes all waiting gradients
  stream_ = stream;
  waiting_.push_back(i);
  waiting_factor_[i] = 1;
}

bool GradientIntake::weigh(std::size_t i, double factor) {
  if (!waits_) return false;
  if (!is_waiting(i)) wait(i);  // the buffer holds the gradient already
  *waiting_factor_[i] *= factor;
  return true;
}

void GradientIntake::flush() {
  if (waiting_.empty()) return;
  const c10::Stream stream = *stream_;
  {
    const c10::StreamGuard guard(stream);
    enqueue_copies();
  }
  const c10::Stream current = c10::impl::VirtualGuardImpl(stream.device_type()).getStream(stream.device());
  if (current == stream) return;
  c10::Event moved(stream.device_type());
  moved.record(stream);
  moved.block(current);
}

void GradientIntake::enqueue_copies() {
  std::vector<TensorCopy> copies;
  std::vector<std::size_t> moved;
  for (const std::size_t i : waiting_) {
    at::Tensor& grad = parameters_[i].mutable_grad();
    if (!fits(i)) continue;  // the program has replaced the gradient
    if (grad.is_same(flat_->view(i)) && *waiting_factor_[i] == 1) continue;
    copies.push_back({std::exchange(grad, flat_->view(i)), flat_->view(i), *waiting_factor_[i]});
    moved.push_back(i);
  }
  forget();
  if (!copies.empty()) copy_on_device(copies);
  for (const std::size_t i : moved) watch_->record(i);
}

void GradientIntake::forget() {
  for (const std::size_t i : waiting_) waiting_factor_[i].reset();
  waiting_.clear();
  waiting_bytes_ = 0;
  stream_.reset();
}

}  // namespace mn
