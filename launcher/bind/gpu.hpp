/// The GPUs of this node as NVML tells them, and which of them CUDA would show to a process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bind/binding.hpp"

namespace mn::launcher {

struct Gpu {
  std::string uuid;    ///< GPU-…
  std::string bus_id;  ///< as normal_bus_id() spells it
  std::string name;
  std::uint64_t memory_mib = 0;
  int capability = 0;               ///< compute capability, 90 for 9.0; 0: not told
  bool ecc = false;                 ///< memory with error correction
  unsigned power_limit_w = 0;       ///< enforced
  int compute_mode = 0;             ///< NVML's: 0 default, 3 exclusive to one process
  bool mig = false;                 ///< cut into instances
  std::vector<std::string> slices;  ///< MIG-… of its instances
  bool remap_pending = false;       ///< a broken memory row waits for a reset
  bool throttled = false;           ///< slowed down by heat or power faults
  std::vector<int> processes;       ///< process ids that compute on it
};

struct GpuDriver {
  std::string version;    ///< of the driver library
  int cuda_version = 0;   ///< newest CUDA it serves, as CUDA writes it: 13000
  std::vector<Gpu> gpus;  ///< that this process may open, by bus id
};

/// Loads NVML at run time; nothing where there is no driver.
[[nodiscard]] std::optional<GpuDriver> read_gpus(const std::string& library = "libnvidia-ml.so.1");

/// What CUDA makes of CUDA_VISIBLE_DEVICES (nothing: unset): indices or GPU-/MIG- UUIDs, which may be shortened, with
/// blanks around; the first entry that is neither, or fits several, ends the list, and one that comes twice leaves
/// nothing. From the CUDA C++ Programming Guide, environment variables.
[[nodiscard]] std::vector<VisibleGpu> visible_gpus(const std::vector<Gpu>& gpus,
                                                   const std::optional<std::string>& visible_devices);

void to_json(nlohmann::json& json, const GpuDriver& driver);

}  // namespace mn::launcher
