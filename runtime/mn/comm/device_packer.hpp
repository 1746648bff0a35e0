/// Many gradients on a GPU as one buffer, so that one reduction takes them all.
///
/// The backends with NCCL call apply(), each rank for itself; only the reduction in it is collective.
///
/// Invariants:
/// 1. As GradientPacker: groups in order of first appearance; a copy changes no count.
/// 2. Each gradient begins on 16 bytes of the packed buffer, which the kernel's wide loads need. Counts and dtypes are
///    alike on all ranks, so offsets are too.
/// 3. Memory once given to a kernel stays until the packer goes: a CUDA graph may have captured its address.
///
/// Cost: nothing for gradients that follow each other in memory and travel as they are; else two kernels for each 120
/// gradients, and device memory of the largest group.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <mn/comm/cuda.hpp>
#include <mn/comm/gradient_packer.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class DevicePacker {
 public:
  /// `wire`: the dtype in which gradients travel; std::nullopt: their own.
  explicit DevicePacker(std::optional<DType> wire) : wire_(wire) {}

  /// Calls `reduce(whole, scale)` with one device buffer for each dtype; it must enqueue, on `stream`, the sum of
  /// `whole` over ranks times `scale`. Gradients that follow each other in memory are given as they lie. Others, and
  /// all that must travel as another dtype, are packed and converted before, and unpacked, converted and scaled after.
  template <class Reduce>
  void apply(std::span<const BufferView> gradients, double scale, const CudaStream& stream, const Reduce& reduce) {
    for (const auto& group : GradientPacker::group_by_dtype(gradients)) {
      const DType wire = wire_.value_or(group.front().dtype);
      if (wire == group.front().dtype && GradientPacker::is_contiguous(group)) {
        reduce(GradientPacker::joined(group), scale);
        continue;
      }
      const BufferView whole = pack(group, wire, stream);
      reduce(whole, 1.0);
      unpack(group, whole, scale, stream);
    }
  }

 private:
  [[nodiscard]] std::byte* reserve(std::size_t bytes, const CudaStream& stream);
  [[nodiscard]] BufferView pack(const GradientPacker::Group& group, DType wire, const CudaStream& stream);
  void unpack(const GradientPacker::Group& group, BufferView whole, double scale, const CudaStream& stream) const;

  std::optional<DType> wire_;
  std::vector<CudaMemory> blocks_;  // the last is in use
  std::size_t capacity_ = 0;        // of the last, in bytes
};

}  // namespace mn
