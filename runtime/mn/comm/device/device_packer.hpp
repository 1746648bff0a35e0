/// Many gradients on a GPU as one buffer, so that one reduction takes them all.
///
/// The backends with NCCL call apply(), each rank for itself; only the reduction in it is collective.
///
/// Invariants:
/// 1. As GradientPacker: groups in order of first appearance; a copy changes no count. So where gradients travel as
///    they are, packed ones follow each other without gaps, as others may lie on other ranks.
/// 2. Where they travel as another dtype, every rank packs them. Each gradient then begins on 16 bytes of the packed
///    buffer, which the kernel's wide loads need.
/// 3. Whether gradients are packed changes neither what they travel as nor how they are scaled.
///
/// Cost: nothing for float32 and float64 that follow each other in memory and travel as they are; for 16-bit floats one
/// kernel that scales them. Else two kernels for each 120 gradients, and device memory of the largest group.
#pragma once

#include <optional>
#include <span>

#include <mn/comm/device/cuda.hpp>
#include <mn/comm/device/device_scratch.hpp>
#include <mn/comm/device/gradient_packer.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class DevicePacker {
 public:
  /// `wire`: the dtype in which gradients travel; std::nullopt: their own, but float16 as float32.
  explicit DevicePacker(std::optional<DType> wire) : wire_(wire) {}

  /// Calls `reduce(whole, factor)` with one device buffer for each dtype; it must enqueue, on `stream`, the sum of
  /// `whole` over ranks times `factor`. Gradients that follow each other in memory are given as they lie. Others, and
  /// all that must travel as another dtype, are packed and converted before, and unpacked and converted after.
  template <class Reduce>
  void apply(std::span<const BufferView> gradients, double scale, const CudaStream& stream, const Reduce& reduce) {
    for (const auto& group : GradientPacker::group_by_dtype(gradients)) {
      const DType wire = wire_for(group.front().dtype);
      const Scales scales = scales_for(wire, scale);
      if (wire == group.front().dtype && GradientPacker::is_contiguous(group)) {
        const BufferView whole = GradientPacker::joined(group);
        scale_in_place(whole, scales.before, stream);
        reduce(whole, scales.during);
        scale_in_place(whole, scales.after, stream);
      } else {
        const BufferView whole = pack(group, wire, scales.before, stream);
        reduce(whole, scales.during);
        unpack(group, whole, scales.after, stream);
      }
    }
  }

 private:
  /// Factors of a mean, whose product is the scale: in kernels before and after the sum, and in NCCL's operator.
  struct Scales {
    double before = 1;
    double during = 1;
    double after = 1;
  };
  [[nodiscard]] DType wire_for(DType gradient) const;
  [[nodiscard]] static Scales scales_for(DType wire, double scale);
  static void scale_in_place(BufferView whole, double scale, const CudaStream& stream);

  [[nodiscard]] BufferView pack(const GradientPacker::Group& group, DType wire, double scale, const CudaStream& stream);
  static void unpack(const GradientPacker::Group& group, BufferView whole, double scale, const CudaStream& stream);

  std::optional<DType> wire_;
  DeviceScratch scratch_;
};

}  // namespace mn
