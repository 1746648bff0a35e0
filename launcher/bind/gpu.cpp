#include "bind/gpu.hpp"

#include <algorithm>
#include <charconv>

#include <dlfcn.h>

#include <mn/core/json.hpp>

namespace mn::launcher {
namespace {

// The few declarations of NVML's stable C interface (nvml.h) that are used here.
using Device = void*;
using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kInsufficientSize = 7;
constexpr unsigned kMigEnabled = 1;
// nvmlClocksThrottleReason: hardware slowdown, its thermal form, its power brake, software thermal slowdown.
constexpr unsigned long long kBadThrottle = 0x8 | 0x40 | 0x80 | 0x20;

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};

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

  /// The function's status; 13 (not found in the library) where this NVML is too old to have it.
  template <typename... Arguments>
  Status call(const char* name, Arguments... arguments) const {
    constexpr Status kFunctionNotFound = 13;
    auto* function = reinterpret_cast<Status (*)(Arguments...)>(dlsym(handle_, name));
    return function == nullptr ? kFunctionNotFound : function(arguments...);
  }

  template <typename Value>
  [[nodiscard]] Value value(const char* name, Device device, Value fallback) const {
    Value result{};
    return call(name, device, &result) == kSuccess ? result : fallback;
  }

 private:
  void* handle_;
  bool running_ = false;
};

std::string uuid_of(const Nvml& nvml, Device device) {
  char text[96] = {};
  return nvml.call("nvmlDeviceGetUUID", device, +text, unsigned{sizeof text}) == kSuccess ? text : "";
}

std::vector<std::string> slices_of(const Nvml& nvml, Device device) {
  std::vector<std::string> slices;
  const unsigned most = nvml.value<unsigned>("nvmlDeviceGetMaxMigDeviceCount", device, 0);
  for (unsigned i = 0; i < most; ++i) {
    Device slice = nullptr;
    if (nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", device, i, &slice) != kSuccess) continue;
    slices.push_back(uuid_of(nvml, slice));
  }
  return slices;
}

std::vector<int> processes_of(const Nvml& nvml, Device device) {
  std::vector<Process> list(64);
  unsigned count = static_cast<unsigned>(list.size());
  const Status status = nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, list.data());
  if (status != kSuccess && status != kInsufficientSize) return {};
  std::vector<int> pids;
  for (unsigned i = 0; i < std::min<unsigned>(count, 64); ++i) pids.push_back(static_cast<int>(list[i].pid));
  return pids;
}

Gpu describe(const Nvml& nvml, Device device) {
  Gpu gpu;
  gpu.uuid = uuid_of(nvml, device);
  gpu.bus_id = normal_bus_id(nvml.value<PciInfo>("nvmlDeviceGetPciInfo_v3", device, {}).bus_id);
  char name[96] = {};
  if (nvml.call("nvmlDeviceGetName", device, +name, unsigned{sizeof name}) == kSuccess) gpu.name = name;
  gpu.memory_mib = nvml.value<Memory>("nvmlDeviceGetMemoryInfo", device, {}).total >> 20;
  int major = 0;
  int minor = 0;
  if (nvml.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) == kSuccess) {
    gpu.capability = 10 * major + minor;
  }
  unsigned ecc[2] = {};
  gpu.ecc = nvml.call("nvmlDeviceGetEccMode", device, &ecc[0], &ecc[1]) == kSuccess && ecc[0] != 0;
  gpu.power_limit_w = nvml.value<unsigned>("nvmlDeviceGetEnforcedPowerLimit", device, 0) / 1000;
  gpu.compute_mode = nvml.value<int>("nvmlDeviceGetComputeMode", device, 0);
  unsigned current = 0;
  unsigned pending = 0;
  gpu.mig = nvml.call("nvmlDeviceGetMigMode", device, &current, &pending) == kSuccess && current == kMigEnabled;
  if (gpu.mig) gpu.slices = slices_of(nvml, device);
  unsigned rows[4] = {};
  gpu.remap_pending =
      nvml.call("nvmlDeviceGetRemappedRows", device, &rows[0], &rows[1], &rows[2], &rows[3]) == kSuccess &&
      rows[2] != 0;
  const auto reasons = nvml.value<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device, 0);
  gpu.throttled = (reasons & kBadThrottle) != 0;
  gpu.processes = processes_of(nvml, device);
  return gpu;
}

std::optional<VisibleGpu> gpu_by_index(const std::vector<Gpu>& gpus, const std::string& entry) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (error != std::errc() || end != entry.data() + entry.size() || index >= gpus.size()) return std::nullopt;
  const Gpu& gpu = gpus[index];
  // CUDA shows the first instance of a GPU that is cut into several.
  return VisibleGpu{gpu.mig && !gpu.slices.empty() ? gpu.slices.front() : gpu.uuid, gpu.bus_id};
}

/// A beginning that fits several is none.
std::optional<VisibleGpu> gpu_by_uuid(const std::vector<Gpu>& gpus, const std::string& entry) {
  std::vector<VisibleGpu> fitting;
  for (const auto& gpu : gpus) {
    if (gpu.uuid.starts_with(entry)) fitting.push_back({gpu.uuid, gpu.bus_id});
    for (const auto& slice : gpu.slices) {
      if (slice.starts_with(entry)) fitting.push_back({slice, gpu.bus_id});
    }
  }
  return fitting.size() == 1 ? std::optional(fitting.front()) : std::nullopt;
}

std::string without_blanks(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

std::optional<GpuDriver> read_gpus(const std::string& library) {
  const Nvml nvml(library);
  if (!nvml.running()) return std::nullopt;
  GpuDriver driver;
  char version[96] = {};
  if (nvml.call("nvmlSystemGetDriverVersion", +version, unsigned{sizeof version}) == kSuccess) driver.version = version;
  nvml.call("nvmlSystemGetCudaDriverVersion_v2", &driver.cuda_version);
  unsigned count = 0;
  nvml.call("nvmlDeviceGetCount_v2", &count);
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    // A control group may forbid some of them to this process.
    if (nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &device) == kSuccess) {
      driver.gpus.push_back(describe(nvml, device));
    }
  }
  return driver;
}

std::vector<VisibleGpu> visible_gpus(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible_devices) {
  std::vector<VisibleGpu> visible;
  if (!visible_devices) {
    for (std::size_t i = 0; i < gpus.size(); ++i) visible.push_back(*gpu_by_index(gpus, std::to_string(i)));
    return visible;
  }
  const std::string& list = *visible_devices;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    const std::string entry = without_blanks(list.substr(begin, comma - begin));
    begin = comma + 1;
    const bool is_uuid = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    const auto gpu = is_uuid ? gpu_by_uuid(gpus, entry) : gpu_by_index(gpus, entry);
    if (!gpu) break;
    if (std::ranges::find(visible, gpu->uuid, &VisibleGpu::uuid) != visible.end()) return {};
    visible.push_back(*gpu);
  }
  return visible;
}

void to_json(nlohmann::json& json, const GpuDriver& driver) {
  json = {{"version", driver.version}, {"cuda", driver.cuda_version}, {"gpus", nlohmann::json::array()}};
  for (const auto& gpu : driver.gpus) {
    json["gpus"].push_back({{"uuid", gpu.uuid},
                            {"bus", gpu.bus_id},
                            {"name", gpu.name},
                            {"memory_mib", gpu.memory_mib},
                            {"capability", gpu.capability},
                            {"ecc", gpu.ecc},
                            {"power_limit_w", gpu.power_limit_w},
                            {"compute_mode", gpu.compute_mode},
                            {"mig", gpu.mig},
                            {"remap_pending", gpu.remap_pending},
                            {"throttled", gpu.throttled},
                            {"processes", gpu.processes.size()}});
  }
}

}  // namespace mn::launcher
