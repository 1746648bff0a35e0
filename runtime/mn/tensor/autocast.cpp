#include <mn/tensor/autocast.hpp>

#include <ATen/autocast_mode.h>

#include <mn/tensor/tensor.hpp>

namespace mn {

AutocastScope::AutocastScope(std::optional<c10::ScalarType> type, Device device)
    : device_type_(c10::Device(device).type()),
      before_(at::autocast::is_autocast_enabled(device_type_)),
      dtype_before_(at::autocast::get_autocast_dtype(device_type_)) {
  if (type) {
    at::autocast::set_autocast_enabled(device_type_, true);
    at::autocast::set_autocast_dtype(device_type_, *type);
  }
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  // The outermost scope drops the cached casts of weights: the next update changes the weights.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_type_, before_);
  at::autocast::set_autocast_dtype(device_type_, dtype_before_);
}

}  // namespace mn
