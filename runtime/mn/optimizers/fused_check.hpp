/// libtorch's fused kernels are tried before they are trusted. Internal.
///
/// libtorch 2.11's SGD kernel for CPUs leaves out all but the last few elements of float16 and bfloat16 tensors, and
/// says nothing. Which dtypes and versions have such faults cannot be known beforehand.
/// (1) Each kernel takes a step of known result, once in a process for each kind of device and dtype.
/// (2) Where the result is wrong, the kernel for float32 takes the step on copies.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

enum class FusedKernel : std::uint8_t { kSgd, kAdam, kAdamW };

/// Whether the kernel is right for tensors like this one (1). Throws Error if it is wrong for float32 or float64.
[[nodiscard]] bool is_right(FusedKernel kernel, const at::Tensor& like);

/// Lists of tensors with float32 copies in place of those of 16 bits, if `needed`: for steps that would round, overflow
/// or underflow in between.
class WideCopies {
 public:
  explicit WideCopies(std::initializer_list<std::vector<at::Tensor>*> lists, bool needed = true);
  /// The tensors take what is in the copies now.
  void write_back();

 private:
  struct Copy {
    at::Tensor original, wide;
  };
  std::vector<Copy> copies_;
};

}  // namespace mn
