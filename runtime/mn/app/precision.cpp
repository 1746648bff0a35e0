#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

#include <mn/app/precision.hpp>

namespace mn::app {

std::vector<std::string> precision_names() { return {"fp32", "tf32", "bf16"}; }

void set_precision(const std::string& precision) {
  at::globalContext().setFloat32MatmulPrecision(precision == "tf32" ? "high" : "highest");
  at::globalContext().setAllowTF32CuDNN(precision == "tf32");
}

void set_deterministic(bool on) {
  at::globalContext().setDeterministicAlgorithms(on, false);
  at::globalContext().setDeterministicCuDNN(on);
  at::globalContext().setBenchmarkCuDNN(!on);
}

AutocastScope::AutocastScope(const std::string& precision, Device device)
    : type_(device.type == DeviceType::kCuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU),
      before_(at::autocast::is_autocast_enabled(type_)),
      dtype_before_(at::autocast::get_autocast_dtype(type_)) {
  if (precision == "bf16") {
    at::autocast::set_autocast_enabled(type_, true);
    at::autocast::set_autocast_dtype(type_, at::kBFloat16);
  }
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  // The outermost scope forgets the casted weights: the next update changes them.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type_, before_);
  at::autocast::set_autocast_dtype(type_, dtype_before_);
}

}  // namespace mn::app
