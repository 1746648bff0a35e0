#include <mn/comm/device_packer.hpp>
#include <mn/comm/pack.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr std::size_t kAlignment = 16;  // what the kernel's wide loads want

/// Elements from the begin of one gradient to that of the next.
std::size_t stride(const BufferView& gradient, DType wire) {
  const std::size_t step = kAlignment / size_of(wire);
  return (gradient.count + step - 1) / step * step;
}

}  // namespace

std::byte* DevicePacker::reserve(std::size_t bytes, const CudaStream& stream) {
  if (bytes > capacity_) {
    if (stream.is_captured()) {
      throw CommError("a CUDA graph is being captured, and gradients of " + std::to_string(bytes) +
                      " bytes have no memory to be packed into: make the same call once before the capture");
    }
    blocks_.push_back(cuda_allocate(bytes));
    capacity_ = bytes;
  }
  return blocks_.back().get();
}

BufferView DevicePacker::pack(const GradientPacker::Group& group, DType wire, const CudaStream& stream) {
  BufferView whole(nullptr, 0, wire, group.front().device);
  for (const BufferView& gradient : group) whole.count += stride(gradient, wire);
  whole.data = reserve(whole.bytes(), stream);
  std::vector<PackPiece> pieces;
  std::size_t first = 0;
  for (const BufferView& gradient : group) {
    pieces.push_back({gradient.data, whole.slice(first, 0).data, gradient.count});
    first += stride(gradient, wire);
  }
  pack_on_device(pieces, group.front().dtype, wire, 1.0, stream.handle());
  return whole;
}

void DevicePacker::unpack(const GradientPacker::Group& group, BufferView whole, double scale,
                          const CudaStream& stream) const {
  std::vector<PackPiece> pieces;
  std::size_t first = 0;
  for (const BufferView& gradient : group) {
    pieces.push_back({whole.slice(first, 0).data, gradient.data, gradient.count});
    first += stride(gradient, whole.dtype);
  }
  pack_on_device(pieces, whole.dtype, group.front().dtype, scale, stream.handle());
}

}  // namespace mn
