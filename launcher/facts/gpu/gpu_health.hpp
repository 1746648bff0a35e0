/// The health of a GPU by NVML: links, memory, clocks.
#pragma once

#include <cstdint>
#include <optional>

#include <mn/core/fields.hpp>

namespace mn::launcher {

namespace nvml {
class Nvml;
}

/// Facts that NVML or the GPU does not tell have no value.
struct GpuHealth {
  std::optional<int> links;                       ///< NVLinks that are up
  std::optional<std::uint64_t> link_recoveries;   ///< recoveries of all NVLinks since the driver was loaded
  std::optional<bool> in_fabric;                  ///< membership in the NVSwitch fabric, set by the fabric manager
  std::optional<std::uint64_t> uncorrected;       ///< uncorrected memory errors since the driver was loaded
  std::optional<bool> retirement_pending;         ///< a broken memory page waits for a reset (before A100)
  std::optional<bool> remap_failed;               ///< no spare memory row is left (from A100 on)
  std::optional<bool> persistent;                 ///< the driver keeps the GPU ready while nobody uses it
  std::optional<unsigned> application_clock_mhz;  ///< clock of the multiprocessors, set by nvidia-smi -ac
  MN_FIELDS(links, link_recoveries, in_fabric, uncorrected, retirement_pending, remap_failed, persistent,
            application_clock_mhz);
  friend bool operator==(const GpuHealth&, const GpuHealth&) = default;
};

/// `device`: NVML's handle.
[[nodiscard]] GpuHealth read_health(const nvml::Nvml& nvml, void* device);

}  // namespace mn::launcher
