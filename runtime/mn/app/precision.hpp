/// How exactly a job computes: --precision and --deterministic.
#pragma once

#include <string>
#include <vector>

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <mn/core/buffer.hpp>

namespace mn::app {

[[nodiscard]] std::vector<std::string> precision_names();

/// For the whole process. "fp32": float32 throughout. "tf32": matrix products may round their inputs to TF32 where the
/// hardware has it. "bf16": as fp32, but AutocastScope runs matrix products and convolutions in bfloat16.
void set_precision(const std::string& precision);

/// Whether a run has the same bits as another: libtorch's deterministic algorithms, an error where an operation has
/// none. Else cuDNN tries its algorithms at the first step of each shape, and takes the fastest.
void set_deterministic(bool on);

/// While it lives, operations of this thread run in bfloat16 where that is safe, if `precision` is "bf16" (libtorch's
/// autocast; Micikevicius et al. 2018, arXiv:1710.03740). For forward passes: the parameters stay float32.
class AutocastScope {
 public:
  AutocastScope(const std::string& precision, Device device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType type_;
  bool before_;
  c10::ScalarType dtype_before_;
};

}  // namespace mn::app
