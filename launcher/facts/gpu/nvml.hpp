/// NVIDIA's management library (nvml.h), loaded at run time: the declarations of its stable C interface in use here.
#pragma once

#include <optional>
#include <string>

#include <dlfcn.h>

namespace mn::launcher::nvml {

using Device = void*;
using Status = int;
inline constexpr Status kSuccess = 0;

class Nvml {
 public:
  explicit Nvml(const std::string& library) : handle_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    running_ = handle_ != nullptr && call("nvmlInit_v2") == kSuccess;
  }
  ~Nvml() {
    if (running_) call("nvmlShutdown");
    if (handle_ != nullptr) dlclose(handle_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] bool running() const noexcept { return running_; }

  /// The function's status; 13 (function not found) if this NVML is too old.
  template <typename... Arguments>
  Status call(const char* name, Arguments... arguments) const {
    constexpr Status kFunctionNotFound = 13;
    auto* function = reinterpret_cast<Status (*)(Arguments...)>(dlsym(handle_, name));
    return function == nullptr ? kFunctionNotFound : function(arguments...);
  }

  template <typename Value>
  [[nodiscard]] std::optional<Value> value(const char* name, Device device) const {
    Value result{};
    return call(name, device, &result) == kSuccess ? std::optional(result) : std::nullopt;
  }

 private:
  void* handle_;
  bool running_ = false;
};

/// Memory rows with errors, replaced by spare rows (from A100 on).
struct RemappedRows {
  bool pending;  ///< rows wait for a reset
  bool failed;   ///< no spare row is left
};

[[nodiscard]] inline std::optional<RemappedRows> remapped_rows(const Nvml& nvml, Device device) {
  unsigned correctable = 0;
  unsigned uncorrectable = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  const auto status = nvml.call("nvmlDeviceGetRemappedRows", device, &correctable, &uncorrectable, &pending, &failed);
  return status == kSuccess ? std::optional(RemappedRows{pending != 0, failed != 0}) : std::nullopt;
}

}  // namespace mn::launcher::nvml
