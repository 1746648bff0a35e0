/// Many gradients on the host as one buffer, so that one reduction takes them all.
///
/// The CPU backends' allreduce_grad calls apply(), each rank for itself; only the reduction in it is collective.
///
/// Invariants:
/// 1. Groups come in order of first appearance of their dtypes, so all ranks reduce the same ones in the same order.
/// 2. Whether a group is copied is a rank's own affair: the reduction gets the same count on all ranks.
///
/// Cost: nothing for gradients that follow each other in memory; else two copies, and scratch memory of the largest
/// group.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <mn/core/buffer.hpp>

namespace mn {

class GradientPacker {
 public:
  using Group = std::vector<BufferView>;  ///< buffers of one dtype

  /// Calls `reduce` with one host buffer for each dtype. Gradients that follow each other in memory are given as they
  /// lie; others are packed before and unpacked after.
  template <class Reduce>
  void apply(std::span<const BufferView> gradients, const Reduce& reduce) {
    for (const auto& group : group_by_dtype(gradients)) {
      const bool contiguous = is_contiguous(group);
      const BufferView whole = contiguous ? joined(group) : pack(group);
      reduce(whole);
      if (!contiguous) unpack(group);
    }
  }

  /// The gradients of each dtype, without empty ones.
  [[nodiscard]] static std::vector<Group> group_by_dtype(std::span<const BufferView> gradients);
  /// Whether the gradients follow each other in memory.
  [[nodiscard]] static bool is_contiguous(const Group& group);
  /// Gradients that do, as one buffer.
  [[nodiscard]] static BufferView joined(const Group& group);

 private:
  [[nodiscard]] BufferView pack(const Group& group);
  void unpack(const Group& group) const;

  std::vector<double> scratch_;  // for its alignment
};

}  // namespace mn
