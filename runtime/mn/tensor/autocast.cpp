#include <mn/tensor/autocast.hpp>

#include <ATen/autocast_mode.h>

#include <mn/tensor/tensor.hpp>

namespace mn {

AutocastSettings AutocastSettings::of(c10::DeviceType device) {
  return {device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
}

void AutocastSettings::set() const {
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::set_autocast_dtype(device, dtype);
}

AutocastScope::AutocastScope(std::optional<c10::ScalarType> type, Device device)
    : AutocastScope([&] {
        const c10::DeviceType kind = c10::Device(device).type();
        return type ? AutocastSettings{kind, true, *type} : AutocastSettings::of(kind);
      }()) {}

AutocastScope::AutocastScope(const AutocastSettings& settings) : before_(AutocastSettings::of(settings.device)) {
  settings.set();
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  // Autocast keeps 16-bit copies of the weights while scopes are open. After the outermost scope the copies are
  // dropped, because the next update changes the weights.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  before_.set();
}

}  // namespace mn
