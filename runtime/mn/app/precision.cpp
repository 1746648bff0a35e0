#include <mn/app/precision.hpp>

#include <ATen/Context.h>

namespace mn::app {

std::vector<std::string> precision_names() { return {"fp32", "tf32", "bf16", "fp16"}; }

void set_precision(const std::string& precision) {
  at::globalContext().setFloat32MatmulPrecision(precision == "tf32" ? "high" : "highest");
  at::globalContext().setAllowTF32CuDNN(precision == "tf32");
}

void set_deterministic(bool on) {
  at::globalContext().setDeterministicAlgorithms(on, false);
  at::globalContext().setDeterministicCuDNN(on);
  at::globalContext().setBenchmarkCuDNN(!on);  // selects kernels by their times, which differ from run to run
}

std::optional<c10::ScalarType> autocast_type(const std::string& precision) {
  if (precision == "bf16") return at::kBFloat16;
  if (precision == "fp16") return at::kHalf;
  return std::nullopt;
}

}  // namespace mn::app
