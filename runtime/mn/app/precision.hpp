/// How exactly a job computes: --precision and --deterministic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

namespace mn::app {

[[nodiscard]] std::vector<std::string> precision_names();

/// For the whole process. "fp32": float32 throughout. "tf32": matrix products may round their inputs to TF32 where the
/// hardware has it. "bf16", "fp16": as fp32, but
/// AutocastScope runs matrix products and convolutions in bfloat16 or float16.
void set_precision(const std::string& precision);

/// Whether a run has the same bits as another: libtorch's deterministic algorithms, an error where an operation has
/// none. Else cuDNN tries its algorithms at the first step of each shape, and takes the fastest.
void set_deterministic(bool on);

/// What an AutocastScope of this precision takes.
[[nodiscard]] std::optional<c10::ScalarType> autocast_type(const std::string& precision);

}  // namespace mn::app
