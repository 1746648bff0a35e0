/// Many gradients as one buffer.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <mn/comm/buffer.hpp>

namespace mn {

/// Calls `reduce` with one host buffer for each dtype, in order of first appearance, the same on every rank. Gradients
/// that follow each other in memory are given as they lie; others are packed before and unpacked after.
class GradientPacker {
 public:
  template <class Reduce>
  void apply(std::span<const BufferView> gradients, const Reduce& reduce) {
    for (const auto& group : group_by_dtype(gradients)) {
      const bool contiguous = is_contiguous(group);
      const BufferView whole = contiguous ? joined(group) : pack(group);
      reduce(whole);
      if (!contiguous) unpack(group);
    }
  }

 private:
  using Group = std::vector<BufferView>;
  [[nodiscard]] static std::vector<Group> group_by_dtype(std::span<const BufferView> gradients);
  [[nodiscard]] static bool is_contiguous(const Group& group);
  [[nodiscard]] static BufferView joined(const Group& group);
  [[nodiscard]] BufferView pack(const Group& group);
  void unpack(const Group& group) const;

  std::vector<double> scratch_;  // for its alignment
};

}  // namespace mn
