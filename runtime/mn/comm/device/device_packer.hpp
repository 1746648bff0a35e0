/// Packs gradients on a GPU into one buffer for a single reduction. Only the reduction within apply() is collective.
///
/// Invariants:
/// 1. Gradients are grouped by dtype, and groups are ordered by the first appearance of their dtypes. Therefore all
///    ranks reduce the groups in the same order. Gradients that are sent in their own dtype are packed without gaps.
///    Therefore a rank whose gradients already lie without gaps can reduce them unpacked, with the same number of
///    elements.
/// 2. Gradients that are converted to another dtype are packed on every rank, each at a multiple of 16 bytes. Therefore
///    the kernel can load 16 bytes at a time.
/// 3. Packed and unpacked gradients are sent in the same dtype, with the same scaling.
///
/// Cost: contiguous gradients without a conversion take a scaling kernel, or no kernel if the scale is 1. Other
/// gradients take two kernels for each kPackPieces gradients, which also scale, and device memory of the size of the
/// largest group.
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
  /// `wire` is the dtype in which gradients are sent. Without `wire`: their own dtype, but float16 as float32.
  explicit DevicePacker(std::optional<DType> wire) : wire_(wire) {}

  /// Calls `reduce(whole)` once for the gradients of each dtype. `reduce` must enqueue on `stream` the sum of `whole`
  /// over ranks. Gradients with gaps, or with a dtype other than `wire`, are packed before and unpacked afterwards.
  template <class Reduce>
  void apply(std::span<const BufferView> gradients, double scale, const CudaStream& stream, const Reduce& reduce) {
    for (const auto& group : GradientPacker::group_by_dtype(gradients)) {
      const DType wire = wire_for(group.front().dtype);
      const Scales scales = scales_for(wire, scale);
      if (wire == group.front().dtype && GradientPacker::is_contiguous(group)) {
        const BufferView whole = GradientPacker::joined(group);
        scale_in_place(whole, scales.before, stream);
        reduce(whole);
        scale_in_place(whole, scales.after, stream);
      } else {
        const BufferView whole = pack(group, wire, scales.before, stream);
        reduce(whole);
        unpack(group, whole, scales.after, stream);
      }
    }
  }

 private:
  /// The scale as two factors, which kernels apply before and after the sum over ranks.
  struct Scales {
    double before = 1;
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
