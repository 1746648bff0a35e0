#include <mn/gradients/device_samples.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/max.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

namespace mn {
namespace {

constexpr std::int64_t kSamples = 8;  // in each gradient, evenly distributed

at::ScalarType integers_like(const at::Tensor& floats) {
  return floats.element_size() == 2 ? at::kShort : floats.element_size() == 4 ? at::kInt : at::kLong;
}

}  // namespace

DeviceSamples::DeviceSamples(const FlatBuffer& gradients, std::size_t parameters, ChangeNote earlier)
    : parameters_(parameters), note_(std::move(earlier)) {
  for (const at::Tensor& flat : gradients.flats()) {
    std::vector<std::int64_t> positions, codes;
    for (std::size_t i = 0; i < parameters; ++i) {
      const at::Tensor& view = gradients.view(i);
      if (view.scalar_type() != flat.scalar_type()) continue;
      const auto first =
          static_cast<const std::byte*>(view.const_data_ptr()) - static_cast<const std::byte*>(flat.const_data_ptr());
      const std::int64_t stride = std::max<std::int64_t>(view.numel() / kSamples, 1);
      for (std::int64_t k = 0; k < view.numel(); k += stride) {
        positions.push_back(first / static_cast<std::ptrdiff_t>(flat.element_size()) + k);
        codes.push_back(static_cast<std::int64_t>(parameters - i));
      }
    }
    if (positions.empty()) continue;
    const auto there = [&](const std::vector<std::int64_t>& numbers) { return at::tensor(numbers).to(flat.device()); };
    parts_.push_back({flat.view(integers_like(flat)), there(positions), there(codes), {}});
  }
  if (note_.on_host.defined()) return;
  note_.on_device = at::zeros({1}, gradients.tail().options().dtype(at::kLong));
  note_.on_host = at::zeros({1}, at::TensorOptions(at::kLong).pinned_memory(true));
}

void DeviceSamples::record() {
  if (is_forgotten_) return;
  const at::NoGradGuard no_grad;
  for (Part& part : parts_) part.recorded = at::index_select(part.bits, 0, part.positions);
  is_recorded_ = true;
}

void DeviceSamples::compare() {
  if (!is_recorded_ || is_forgotten_) return;
  is_recorded_ = false;
  const at::NoGradGuard no_grad;
  for (const Part& part : parts_) {
    const at::Tensor now = at::index_select(part.bits, 0, part.positions);
    // Invariant 3: a sample that is 0 now is not a change.
    const at::Tensor changed = now.ne(part.recorded).logical_and(now);
    at::maximum_out(note_.on_device, note_.on_device,
                    changed.mul(part.codes).max());  // in place: a CUDA graph keeps the address
  }
  note_.on_host.copy_(note_.on_device, /*non_blocking=*/true);
}

std::optional<std::size_t> DeviceSamples::changed_parameter() const {
  // Invariant 2: the device may write the note while the host reads it; therefore the host reads the note atomically.
  const std::int64_t code =
      std::atomic_ref(*note_.on_host.mutable_data_ptr<std::int64_t>()).load(std::memory_order_relaxed);
  if (code == 0) return std::nullopt;
  return parameters_ - static_cast<std::size_t>(code);
}

}  // namespace mn
