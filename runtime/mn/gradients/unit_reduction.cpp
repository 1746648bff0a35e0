#include <mn/gradients/unit_reduction.hpp>

#include <cstdint>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <mn/tensor/factor.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

at::Tensor UnitReduction::place(const at::Tensor& buffer, std::size_t number) const {
  return buffer.narrow(0, layout_->offset(number), layout_->count(number));
}

void UnitReduction::add(std::size_t number, const at::Tensor& gradient, const UnitBuffers& buffers) {
  if (!gradients_.defined()) {
    gradients_ = buffers.take(layout_->size(), gradient.options());
    filled_.assign(layout_->parameters(), false);
  }
  const at::Tensor room = place(gradients_, number).view(gradient.sizes());
  filled_[number] ? room.add_(gradient) : room.copy_(gradient);
  filled_[number] = true;
}

void UnitReduction::multiply(double factor) {
  for (std::size_t i = 0; i < filled_.size(); ++i) {
    if (filled_[i]) place(gradients_, i).mul_(exact_factor(factor));
  }
}

/// Writes zeros to the elements of a buffer that hold no gradient.
void UnitReduction::zero_rest(at::Tensor& gradients, const std::vector<bool>& filled) const {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < filled.size(); ++i) {
    if (!filled[i]) continue;
    gradients.narrow(0, end, layout_->offset(i) - end).zero_();
    end = layout_->offset(i) + layout_->count(i);
  }
  gradients.narrow(0, end, layout_->size() - end).zero_();
}

std::size_t UnitReduction::begin(bool takes, double factor, const UnitBuffers& buffers, bool in_place) {
  const at::NoGradGuard no_grad;
  wait();
  takes = takes && has_gradients();
  sent_ = takes ? std::exchange(gradients_, {}) : buffers.take(layout_->size(), options_);
  zero_rest(sent_, takes ? std::exchange(filled_, {}) : std::vector<bool>());
  if (factor != 1) sent_.mul_(exact_factor(factor));
  Communicator& group = *ranks_->group;
  arriving_ = in_place ? sent_.narrow(0, layout_->share() * group.rank(), layout_->share())
                       : at::empty({layout_->share()}, options_);
  const BufferView sent = buffer_view(sent_), arriving = buffer_view(arriving_);
  scatter_.emplace(
      group, [&](DeviceCollectives& device) { device.reduce_scatter(sent, arriving, ReduceOp::kAverage); },
      [&] { return group.ireduce_scatter(sent, arriving, ReduceOp::kAverage); },
      [&] { group.reduce_scatter(sent, arriving, ReduceOp::kAverage); });
  return sent_.nbytes();
}

void UnitReduction::end_scatter() {
  if (!scatter_) return;
  scatter_->wait();
  scatter_.reset();
  sent_.reset();
  if (!ranks_->replicas) return;
  Communicator& replicas = *ranks_->replicas;
  const BufferView arriving = buffer_view(arriving_);
  across_.emplace(
      replicas, [&](DeviceCollectives& device) { device.allreduce(arriving, ReduceOp::kAverage); },
      [&] { return replicas.iallreduce(arriving, ReduceOp::kAverage); },
      [&] { replicas.allreduce(arriving, ReduceOp::kAverage); });
}

void UnitReduction::wait() {
  end_scatter();
  if (!arriving_.defined()) return;
  const at::NoGradGuard no_grad;
  if (across_) across_->wait();
  across_.reset();
  share_ = share_.defined() ? share_.add_(arriving_) : arriving_;
  arriving_.reset();
}

void UnitReduction::drop() {
  gradients_.reset();
  filled_.clear();
  share_.reset();
}

}  // namespace mn
