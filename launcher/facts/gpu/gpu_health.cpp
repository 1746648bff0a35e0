#include "facts/gpu/gpu_health.hpp"

#include "facts/gpu/nvml.hpp"

namespace mn::launcher {
namespace {

using nvml::Device;
using nvml::kSuccess;
using nvml::Nvml;

constexpr unsigned kMaxLinks = 18;

struct FabricInfo {
  unsigned char cluster[16];
  nvml::Status status;  ///< valid in the state kCompleted only
  unsigned clique;
  unsigned char state;
};

void read_links(const Nvml& nvml, Device device, GpuHealth& health) {
  constexpr int kRecovery = 1;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    unsigned is_up = 0;
    unsigned long long count = 0;
    if (nvml.call("nvmlDeviceGetNvLinkState", device, link, &is_up) != kSuccess) continue;
    health.links = health.links.value_or(0) + (is_up != 0 ? 1 : 0);
    if (nvml.call("nvmlDeviceGetNvLinkErrorCounter", device, link, kRecovery, &count) != kSuccess) continue;
    health.link_recoveries = health.link_recoveries.value_or(0) + count;
  }
}

/// No value without NVSwitch.
std::optional<bool> is_in_fabric(const Nvml& nvml, Device device) {
  constexpr unsigned char kNotSupported = 0;
  constexpr unsigned char kCompleted = 3;
  const auto info = nvml.value<FabricInfo>("nvmlDeviceGetGpuFabricInfo", device);
  if (!info || info->state == kNotSupported) return std::nullopt;
  return info->state == kCompleted && info->status == kSuccess;
}

std::optional<std::uint64_t> uncorrected_errors(const Nvml& nvml, Device device) {
  constexpr int kUncorrected = 1;
  constexpr int kSinceTheDriverWasLoaded = 0;
  unsigned long long count = 0;
  const auto status = nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceTheDriverWasLoaded, &count);
  return status == kSuccess ? std::optional<std::uint64_t>(count) : std::nullopt;
}

std::optional<unsigned> application_clock(const Nvml& nvml, Device device) {
  constexpr int kMultiprocessors = 1;
  unsigned mhz = 0;
  const auto status = nvml.call("nvmlDeviceGetApplicationsClock", device, kMultiprocessors, &mhz);
  return status == kSuccess ? std::optional(mhz) : std::nullopt;
}

std::optional<bool> flag(const Nvml& nvml, const char* name, Device device) {
  const auto value = nvml.value<unsigned>(name, device);
  return value ? std::optional(*value != 0) : std::nullopt;
}

}  // namespace

GpuHealth read_health(const Nvml& nvml, Device device) {
  GpuHealth health;
  read_links(nvml, device, health);
  health.in_fabric = is_in_fabric(nvml, device);
  health.uncorrected = uncorrected_errors(nvml, device);
  health.retirement_pending = flag(nvml, "nvmlDeviceGetRetiredPagesPendingStatus", device);
  if (const auto rows = remapped_rows(nvml, device)) health.remap_failed = rows->failed;
  health.persistent = flag(nvml, "nvmlDeviceGetPersistenceMode", device);
  health.application_clock_mhz = application_clock(nvml, device);
  return health;
}

}  // namespace mn::launcher
