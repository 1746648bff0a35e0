/// --precision and --deterministic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

namespace mn::app {

/// The values of --precision.
[[nodiscard]] std::vector<std::string> precision_names();

/// Sets the precision of float32 operations in this process. "tf32": matrix products may round their inputs to TF32, if
/// the hardware has it. "fp32", "bf16", "fp16": no such rounding; with "bf16" and "fp16" an AutocastScope runs matrix
/// products and convolutions in bfloat16 or float16.
void set_precision(const std::string& precision);

/// on: libtorch uses deterministic algorithms, so that runs have equal bits; an operation without such an algorithm is
/// an error. off: at the first step of each shape cuDNN tries its algorithms and selects the fastest.
void set_deterministic(bool on);

/// The type for an AutocastScope with this precision; no value for "fp32" and "tf32".
[[nodiscard]] std::optional<c10::ScalarType> autocast_type(const std::string& precision);

}  // namespace mn::app
