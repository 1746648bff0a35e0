/// The node's NVIDIA GPUs, as the management library NVML describes them, and the GPUs that CUDA shows to a process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/fields.hpp>

#include "bind/affinity.hpp"

namespace mn::launcher {

/// A GPU's links, memory and clocks. A fact without a value is unknown to NVML or the GPU.
struct GpuHealth {
  std::optional<int> links;                       ///< NVLinks that are up
  std::optional<std::uint64_t> link_recoveries;   ///< recoveries of all NVLinks since the driver was loaded
  std::optional<bool> in_fabric;                  ///< membership in the NVSwitch fabric, set by the fabric manager
  std::optional<std::uint64_t> uncorrected;       ///< uncorrected memory errors since the driver was loaded
  std::optional<bool> retirement_pending;         ///< a broken memory page waits for a reset (before A100)
  std::optional<bool> remap_failed;               ///< no spare memory row is left (from A100 on)
  std::optional<bool> persistent;                 ///< the driver keeps the GPU ready while no process uses it
  std::optional<unsigned> application_clock_mhz;  ///< clock of the multiprocessors, set by nvidia-smi -ac
  MN_FIELDS(links, link_recoveries, in_fabric, uncorrected, retirement_pending, remap_failed, persistent,
            application_clock_mhz);
};

/// A GPU of the node. A fact without a value is unknown to NVML.
struct Gpu {
  std::string uuid;    ///< GPU-…
  std::string bus_id;  ///< as normal_bus_id() writes it
  std::optional<std::string> name;
  std::optional<std::uint64_t> memory_mib;
  std::optional<int> capability;           ///< compute capability, 90 for 9.0
  std::optional<bool> ecc;                 ///< memory with error correction
  std::optional<unsigned> power_limit_w;   ///< enforced
  std::optional<int> compute_mode;         ///< NVML's compute mode; 3: for one process at a time
  std::optional<bool> mig;                 ///< MIG mode: the GPU is cut into instances
  std::vector<std::string> slices;         ///< MIG-… names of the instances
  std::optional<bool> remap_pending;       ///< a broken memory row waits for a reset
  std::optional<bool> throttled;           ///< slowed down by heat or power faults
  std::optional<int> processes;            ///< number of processes that compute on the GPU
  std::vector<unsigned> process_ids = {};  ///< the first 64 of these processes
  GpuHealth health;
  // `slices` and `process_ids` are not sent: no other node needs them.
  MN_FIELDS(uuid, bus_id, name, memory_mib, capability, ecc, power_limit_w, compute_mode, mig, remap_pending, throttled,
            processes, health);
};

struct GpuDriver {
  std::optional<std::string> version;  ///< version of the driver library
  std::optional<int> cuda_version;     ///< newest CUDA that the driver serves, in CUDA's spelling: 13000
  std::vector<Gpu> gpus;               ///< GPUs open to this process, by bus id
  MN_FIELDS(version, cuda_version, gpus);
};

enum class GpuDetail {
  kIdentity,  ///< uuid, bus_id, mig and slices
  kAll,       ///< all members; takes hundreds of requests to NVML
};
inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";
/// The driver and the node's GPUs. No value if NVML cannot be loaded or started, for example without a driver.
[[nodiscard]] std::optional<GpuDriver> read_gpus(const std::string& library = kNvmlLibrary,
                                                 GpuDetail detail = GpuDetail::kAll);

/// The GPUs that a process sees if CUDA_VISIBLE_DEVICES is `visible_devices` (no value: unset). The list has indices,
/// or UUIDs of GPUs or of GPU instances. A UUID may be shortened, and an entry may have blanks around it. The list ends
/// at the first entry that is wrong or ambiguous. If a GPU is named twice, the result is empty. A GPU in MIG mode gives
/// all its instances, although CUDA shows a process only one (see view_gpus()). Sources: CUDA C++ Programming Guide,
/// environment variables; MIG User Guide, Device Enumeration.
[[nodiscard]] std::vector<VisibleGpu> visible_gpus(const std::vector<Gpu>& gpus,
                                                   const std::optional<std::string>& visible_devices);

}  // namespace mn::launcher
