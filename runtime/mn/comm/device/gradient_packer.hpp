/// Packs gradients on the host into one buffer for a single reduction. Only the reduction within apply() is collective.
///
/// 1. Gradients are grouped by dtype. Groups are ordered by the first appearance of their dtypes; therefore all ranks
///    reduce the groups in the same order.
/// 2. Each rank decides by itself whether to copy a group: the reduction gets the same number of elements with and
///    without a copy. Cost: nothing if the gradients of a dtype lie one after another; otherwise two copies, and
///    scratch memory of the size of the largest group.
#pragma once

#include <span>
#include <vector>

#include <mn/core/buffer.hpp>

namespace mn {

class GradientPacker {
 public:
  using Group = std::vector<BufferView>;

  /// For each dtype, calls `reduce` with one host buffer that holds all gradients of the dtype. If there are gaps
  /// between the gradients, packs them before `reduce` and unpacks them afterwards.
  template <class Reduce>
  void apply(std::span<const BufferView> gradients, const Reduce& reduce) {
    for (const auto& group : group_by_dtype(gradients)) {
      const bool contiguous = is_contiguous(group);
      const BufferView whole = contiguous ? joined(group) : pack(group);
      reduce(whole);
      if (!contiguous) unpack(group);
    }
  }

  [[nodiscard]] static std::vector<Group> group_by_dtype(std::span<const BufferView> gradients);
  [[nodiscard]] static bool is_contiguous(const Group& group);
  [[nodiscard]] static BufferView joined(const Group& group);

 private:
  [[nodiscard]] BufferView pack(const Group& group);
  void unpack(const Group& group) const;

  std::vector<double> scratch_;  // doubles, whose alignment suits every dtype
};

}  // namespace mn
