#include <mn/gradients/compression/cast_compressor.hpp>

#include <limits>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace mn {

CastCompressor::CastCompressor(const std::vector<at::Tensor>& parameters, at::ScalarType type,
                               std::shared_ptr<Trace> trace)
    : ErrorFeedback(parameters, std::vector<bool>(parameters.size(), true), std::move(trace)), type_(type) {}

void CastCompressor::lay_out(std::span<const std::size_t> order, Communicator& comm) {
  std::vector<at::Tensor> shapes;
  for (const auto& parameter : parameters()) {
    shapes.push_back(at::empty({parameter.numel()}, at::TensorOptions(at::kMeta).dtype(type_)));
  }
  wire_.emplace(shapes, 0, comm, order);
}

void CastCompressor::reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) {
  std::vector<BufferView> wire;
  const float largest = type_ == at::kHalf ? static_cast<float>(std::numeric_limits<c10::Half>::max())
                                           : static_cast<float>(std::numeric_limits<c10::BFloat16>::max());
  for (const std::size_t i : members) {
    at::Tensor& own = next_residual(i);
    // With a GradScaler the elements are not clamped, because the GradScaler must see an overflow. Without a GradScaler
    // an element beyond the 16-bit type's range is clamped. clamp() alone would also make an infinite element finite,
    // so the code adds own × 0, which turns this element into NaN.
    wire_->view(i).copy_(scaled() ? own : own.clamp(-largest, largest).add_(own, 0));
    own.sub_(wire_->view(i)).nan_to_num_(0, 0, 0);
    wire.push_back(wire_->messages()[wire_->message_index(i)]);
  }
  average(wire, comm);
  for (const std::size_t i : members) gradient(gradients, i).copy_(wire_->view(i));
}

}  // namespace mn
