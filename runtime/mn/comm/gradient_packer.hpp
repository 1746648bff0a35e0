/// Many gradients as one buffer.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <mn/core/buffer.hpp>

namespace mn {

/// Calls `reduce` with one host buffer for each dtype, in order of first appearance, the same on every rank. Gradients
/// that follow each other in memory are given as they lie; others are packed before and unpacked after.
class GradientPacker {
 public:
  using Group = std::vector<BufferView>;

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
