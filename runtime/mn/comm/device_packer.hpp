/// Many gradients on a GPU as one buffer.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <mn/comm/cuda.hpp>
#include <mn/comm/gradient_packer.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// Calls `reduce(whole, scale)` with one device buffer for each dtype, in order of first appearance, the same on every
/// rank; it must enqueue, on the same stream, the sum of `whole` over ranks times `scale`. Gradients that follow each
/// other in memory are given as they lie. Others, and all that must travel as another dtype, are packed and converted
/// before, unpacked, converted and scaled after, each in one kernel.
class DevicePacker {
 public:
  /// `wire`: the dtype in which gradients travel; nothing: their own.
  explicit DevicePacker(std::optional<DType> wire) : wire_(wire) {}

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
  std::vector<CudaMemory> blocks_;  // the last is in use; graphs may have captured the addresses of earlier ones
  std::size_t capacity_ = 0;        // of the last, in bytes
};

}  // namespace mn
