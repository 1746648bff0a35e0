/// Tests libtorch's fused kernels before they are used. Not for programs.
///
/// libtorch 2.11's SGD kernel for CPUs silently updates only the last few elements of float16 and bfloat16 tensors.
/// Nobody knows beforehand which dtypes and versions have faults of this kind; therefore each kernel is tested.
/// (1) Each process tests a kernel once for each kind of device and each dtype: the kernel makes one step whose result
///     is known.
/// (2) If the result is wrong, the program's steps use the kernel for float32, on float32 copies of the tensors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

enum class FusedKernel : std::uint8_t { kSgd, kAdam, kAdamW };

/// True if the kernel computes the right result for tensors with the device and dtype of `like` (1). Throws Error if
/// the kernel is wrong for float32 or float64.
[[nodiscard]] bool is_right(FusedKernel kernel, const at::Tensor& like);

/// If `needed` is true, replaces the 16-bit tensors in the given lists by float32 copies. Used for steps whose
/// intermediate results would be rounded too much, overflow or underflow in 16 bits.
class WideCopies {
 public:
  explicit WideCopies(std::initializer_list<std::vector<at::Tensor>*> lists, bool needed = true);
  /// Copies the float32 values back to the 16-bit tensors.
  void write_back();

 private:
  struct Copy {
    at::Tensor original, wide;
  };
  std::vector<Copy> copies_;
};

}  // namespace mn
