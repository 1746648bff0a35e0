#include <mn/comm/device/device_packer.hpp>
#include <mn/comm/device/pack.hpp>

namespace mn {
namespace {

constexpr std::size_t kPieceAlignment = 16;  // bytes; lets the kernel load 16 bytes at a time

/// Number of elements from one packed gradient to the next. Without a conversion there are no gaps (invariant 1).
/// Converted gradients begin at multiples of 16 bytes (invariant 2).
std::size_t stride(const BufferView& gradient, DType wire) {
  const std::size_t step = gradient.dtype == wire ? 1 : kPieceAlignment / size_of(wire);
  return (gradient.count + step - 1) / step * step;
}

}  // namespace

DType DevicePacker::wire_for(DType gradient) const {
  return wire_.value_or(gradient == DType::kFloat16 ? DType::kFloat32 : gradient);
}

/// Decides whether the factor 1/n of a mean is applied before or after the sum over n ranks. In bfloat16 after the sum,
/// as in Horovod: sums do not overflow, and elements are rounded once less. In float32, float64 and float16 before the
/// sum, as in PyTorch's DDP: a sum of n elements can overflow even if the mean does not. In float16, elements below n ×
/// 2^-25 then become 0, so gradients are sent in float16 only on request. The factor itself is never rounded to 16
/// bits, because this would change all elements in one direction. NCCL never applies it (Nccl::allreduce()).
DevicePacker::Scales DevicePacker::scales_for(DType wire, double scale) {
  if (wire == DType::kBFloat16) return {.after = scale};
  return {.before = scale};
}

void DevicePacker::scale_in_place(BufferView whole, double scale, const CudaStream& stream) {
  if (scale == 1) return;
  const PackPiece piece{whole.data, whole.data, whole.count};
  pack_on_device({&piece, 1}, whole.dtype, whole.dtype, scale, stream.handle());
}

BufferView DevicePacker::pack(const GradientPacker::Group& group, DType wire, double scale, const CudaStream& stream) {
  BufferView whole(nullptr, 0, wire, group.front().device);
  for (const BufferView& gradient : group) whole.count += stride(gradient, wire);
  whole.data = scratch_.reserve(whole.bytes(), stream);
  std::vector<PackPiece> pieces;
  std::size_t first = 0;
  for (const BufferView& gradient : group) {
    pieces.push_back({gradient.data, whole.slice(first, 0).data, gradient.count});
    first += stride(gradient, wire);
  }
  pack_on_device(pieces, group.front().dtype, wire, scale, stream.handle());
  return whole;
}

void DevicePacker::unpack(const GradientPacker::Group& group, BufferView whole, double scale,
                          const CudaStream& stream) {
  std::vector<PackPiece> pieces;
  std::size_t first = 0;
  for (const BufferView& gradient : group) {
    pieces.push_back({whole.slice(first, 0).data, gradient.data, gradient.count});
    first += stride(gradient, whole.dtype);
  }
  pack_on_device(pieces, whole.dtype, group.front().dtype, scale, stream.handle());
}

}  // namespace mn
