/// The GPUs of this node as NVML describes them, and which of them CUDA would show to a process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bind/binding.hpp"
#include "facts/gpu/gpu_health.hpp"

namespace mn::launcher {

/// What this NVML does not say has no value.
struct Gpu {
  std::string uuid;    ///< GPU-…
  std::string bus_id;  ///< as normal_bus_id() spells it
  std::optional<std::string> name;
  std::optional<std::uint64_t> memory_mib;
  std::optional<int> capability;          ///< compute capability, 90 for 9.0
  std::optional<bool> ecc;                ///< memory with error correction
  std::optional<unsigned> power_limit_w;  ///< enforced
  std::optional<int> compute_mode;        ///< NVML's: 0 default, 3 exclusive to one process
  std::optional<bool> mig;                ///< cut into instances
  std::vector<std::string> slices;        ///< MIG-… of its instances
  std::optional<bool> remap_pending;      ///< a broken memory row waits for a reset
  std::optional<bool> throttled;          ///< slowed down by heat or power faults
  std::optional<int> processes;           ///< that compute on it
  GpuHealth health;
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct GpuDriver {
  std::optional<std::string> version;  ///< version of the driver library
  std::optional<int> cuda_version;     ///< newest CUDA it serves, as CUDA writes it: 13000
  std::vector<Gpu> gpus;               ///< that this process may open, by bus id
  friend bool operator==(const GpuDriver&, const GpuDriver&) = default;
};

enum class GpuDetail {
  kIdentity,  ///< uuid, bus_id, mig and slices
  kAll,       ///< takes NVML some hundreds of requests
};
inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";
/// Loads NVML at run time; no value where there is no driver.
[[nodiscard]] std::optional<GpuDriver> read_gpus(const std::string& library = kNvmlLibrary,
                                                 GpuDetail detail = GpuDetail::kAll);

/// The GPUs that a value of CUDA_VISIBLE_DEVICES grants (no value: unset). Entries are indices or GPU-/MIG- UUIDs,
/// which may be shortened, with blanks around. The first entry that is neither, or matches several GPUs, ends the list;
/// a GPU that comes twice empties it. A GPU that is cut up stands for all of its instances, of which CUDA shows one
/// process one only: see view_gpus(). Source: CUDA C++ Programming Guide, environment variables; MIG User Guide, Device
/// Enumeration.
[[nodiscard]] std::vector<VisibleGpu> visible_gpus(const std::vector<Gpu>& gpus,
                                                   const std::optional<std::string>& visible_devices);

}  // namespace mn::launcher
