/// Elements of a random program: a buffer on the host or on a GPU that notices writes beside it and after its time.
#pragma once

#include <climits>
#include <cstddef>
#include <memory>
#include <vector>

#include <mn/comm/cuda.hpp>
#include <mn/core/buffer.hpp>

namespace mn::testing {

/// Stands for a NaN among the values of floats.
inline constexpr int kNaN = INT_MIN;

/// `values` as elements of a dtype, in which they are exact.
[[nodiscard]] std::vector<std::byte> encoded(DType dtype, const std::vector<int>& values);

class Memory {
 public:
  Memory(DType dtype, const std::vector<int>& values, Device device);

  [[nodiscard]] BufferView view() const;
  /// Whether it holds these values, any NaN for a NaN, and nobody wrote beside it.
  [[nodiscard]] bool holds(const std::vector<int>& values) const;
  /// From now on nobody may write to it.
  void retire();
  /// False if somebody has since.
  [[nodiscard]] bool is_untouched() const;

 private:
  [[nodiscard]] std::vector<std::byte> bytes() const;
  void set(const std::vector<std::byte>& bytes) const;

  DType dtype_;
  std::size_t count_;
  Device device_;
  std::unique_ptr<std::byte[]> host_;  // or
  CudaMemory on_device_;
  bool is_retired_ = false;
};

}  // namespace mn::testing
