#include "facts/gpu/nvidia_gpu.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <dlfcn.h>

#include <mn/core/launcher_variables.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

using Device = void*;
using Status = int;
constexpr Status kSuccess = 0;

/// NVIDIA's management library NVML (nvml.h), of which only the stable C interface is called.
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

  /// Returns kFunctionNotFound if this version of NVML lacks the function.
  template <typename... Arguments>
  Status call(const char* name, Arguments... arguments) const {
    constexpr Status kFunctionNotFound = 13;
    auto* function = reinterpret_cast<Status (*)(Arguments...)>(dlsym(handle_, name));
    return function == nullptr ? kFunctionNotFound : function(arguments...);
  }

  /// Returns the value that the function writes to its last argument; no value if the function fails.
  template <typename Value, typename... Arguments>
  [[nodiscard]] std::optional<Value> value(const char* name, Arguments... arguments) const {
    Value result{};
    return call(name, arguments..., &result) == kSuccess ? std::optional(result) : std::nullopt;
  }
  /// Returns the present and the next mode: the function writes both to the last two arguments.
  template <typename Value>
  [[nodiscard]] std::optional<std::pair<Value, Value>> pair(const char* name, Device device) const {
    std::pair<Value, Value> result;
    return call(name, device, &result.first, &result.second) == kSuccess ? std::optional(result) : std::nullopt;
  }
  /// Returns the text that the function writes to a buffer. The last arguments are the buffer's address and size.
  template <typename... Arguments>
  [[nodiscard]] std::optional<std::string> text(const char* name, Arguments... arguments) const {
    char result[96] = {};
    const Status status = call(name, arguments..., +result, unsigned{sizeof result});
    return status == kSuccess ? std::optional<std::string>(result) : std::nullopt;
  }

 private:
  void* handle_;
  bool running_ = false;
};

/// From A100 on, a GPU replaces a row of memory with errors by a spare row.
void read_remapped_rows(const Nvml& nvml, Device device, Gpu& gpu) {
  unsigned correctable = 0;
  unsigned uncorrectable = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  const auto status = nvml.call("nvmlDeviceGetRemappedRows", device, &correctable, &uncorrectable, &pending, &failed);
  if (status != kSuccess) return;
  gpu.remap_pending = pending != 0;
  gpu.health.remap_failed = failed != 0;
}

constexpr unsigned kMaxLinks = 18;

struct FabricInfo {
  unsigned char cluster[16];
  Status status;  ///< valid in the state kCompleted only
  unsigned clique;
  unsigned char state;
};

void read_links(const Nvml& nvml, Device device, GpuHealth& health) {
  constexpr int kRecovery = 1;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    const auto is_up = nvml.value<unsigned>("nvmlDeviceGetNvLinkState", device, link);
    if (!is_up) continue;
    health.links = health.links.value_or(0) + (*is_up != 0 ? 1 : 0);
    const auto count = nvml.value<unsigned long long>("nvmlDeviceGetNvLinkErrorCounter", device, link, kRecovery);
    if (count) health.link_recoveries = health.link_recoveries.value_or(0) + *count;
  }
}

/// No value if NVML knows of no NVSwitch at the GPU.
std::optional<bool> is_in_fabric(const Nvml& nvml, Device device) {
  constexpr unsigned char kNotSupported = 0;
  constexpr unsigned char kCompleted = 3;
  const auto info = nvml.value<FabricInfo>("nvmlDeviceGetGpuFabricInfo", device);
  if (!info || info->state == kNotSupported) return std::nullopt;
  return info->state == kCompleted && info->status == kSuccess;
}

std::optional<bool> flag(const Nvml& nvml, const char* name, Device device) {
  const auto value = nvml.value<unsigned>(name, device);
  return value ? std::optional(*value != 0) : std::nullopt;
}

GpuHealth read_health(const Nvml& nvml, Device device) {
  constexpr int kUncorrected = 1;
  constexpr int kSinceTheDriverWasLoaded = 0;
  constexpr int kMultiprocessors = 1;
  GpuHealth health;
  read_links(nvml, device, health);
  health.in_fabric = is_in_fabric(nvml, device);
  health.uncorrected =
      nvml.value<unsigned long long>("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceTheDriverWasLoaded);
  health.retirement_pending = flag(nvml, "nvmlDeviceGetRetiredPagesPendingStatus", device);
  health.persistent = flag(nvml, "nvmlDeviceGetPersistenceMode", device);
  health.application_clock_mhz = nvml.value<unsigned>("nvmlDeviceGetApplicationsClock", device, kMultiprocessors);
  return health;
}

constexpr unsigned kMigEnabled = 1;
// Reasons for slow clocks that are faults: the hardware, its heat, its power brake, or the driver's heat limit.
constexpr unsigned long long kBadThrottle = 0x8 | 0x40 | 0x80 | 0x20;

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Memory {
  unsigned long long total, free, used;
};

std::vector<std::string> slices_of(const Nvml& nvml, Device device) {
  std::vector<std::string> slices;
  const unsigned most = nvml.value<unsigned>("nvmlDeviceGetMaxMigDeviceCount", device).value_or(0);
  for (unsigned i = 0; i < most; ++i) {
    const auto slice = nvml.value<Device>("nvmlDeviceGetMigDeviceHandleByIndex", device, i);
    if (slice) slices.push_back(nvml.text("nvmlDeviceGetUUID", *slice).value_or(""));
  }
  return slices;
}

struct ProcessInfo {
  unsigned id;
  unsigned long long memory;
  unsigned instance, compute_instance;
};

void read_processes(const Nvml& nvml, Device device, Gpu& gpu) {
  constexpr Status kInsufficientSize = 7;  // `count` is then the number of processes
  constexpr unsigned kMaxListed = 64;
  std::array<ProcessInfo, 2 * kMaxListed> list{};  // the entries of some drivers are larger
  unsigned count = kMaxListed;
  const Status status = nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, list.data());
  if (status != kSuccess && status != kInsufficientSize) return;
  gpu.processes = static_cast<int>(count);
  if (status != kSuccess) return;
  for (unsigned i = 0; i < std::min(count, kMaxListed); ++i) gpu.process_ids.push_back(list[i].id);
}

Gpu identify(const Nvml& nvml, Device device) {
  Gpu gpu;
  gpu.uuid = nvml.text("nvmlDeviceGetUUID", device).value_or("");
  if (const auto pci = nvml.value<PciInfo>("nvmlDeviceGetPciInfo_v3", device)) gpu.bus_id = normal_bus_id(pci->bus_id);
  if (const auto mig = nvml.pair<unsigned>("nvmlDeviceGetMigMode", device)) gpu.mig = mig->first == kMigEnabled;
  if (gpu.mig == true) gpu.slices = slices_of(nvml, device);
  return gpu;
}

void describe(const Nvml& nvml, Device device, Gpu& gpu) {
  gpu.name = nvml.text("nvmlDeviceGetName", device);
  if (const auto memory = nvml.value<Memory>("nvmlDeviceGetMemoryInfo", device)) gpu.memory_mib = memory->total >> 20;
  const auto version = nvml.pair<int>("nvmlDeviceGetCudaComputeCapability", device);
  if (version) gpu.capability = 10 * version->first + version->second;
  if (const auto ecc = nvml.pair<unsigned>("nvmlDeviceGetEccMode", device)) gpu.ecc = ecc->first != 0;
  const auto milliwatts = nvml.value<unsigned>("nvmlDeviceGetEnforcedPowerLimit", device);
  if (milliwatts) gpu.power_limit_w = *milliwatts / 1000;
  gpu.compute_mode = nvml.value<int>("nvmlDeviceGetComputeMode", device);
  const auto reasons = nvml.value<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device);
  if (reasons) gpu.throttled = (*reasons & kBadThrottle) != 0;
  read_processes(nvml, device, gpu);
  gpu.health = read_health(nvml, device);
  read_remapped_rows(nvml, device, gpu);
}

/// The GPU itself or, in MIG mode, its instances.
std::vector<VisibleGpu> devices_of(const Gpu& gpu) {
  if (gpu.mig != true) return {{gpu.uuid, gpu.bus_id}};
  std::vector<VisibleGpu> instances;
  for (const auto& slice : gpu.slices) instances.push_back({slice, gpu.bus_id});
  return instances;
}

std::vector<VisibleGpu> devices_by_index(const std::vector<Gpu>& gpus, const std::string& entry) {
  const auto index = parse_rank(entry);
  return index && std::cmp_less(*index, gpus.size()) ? devices_of(gpus[static_cast<std::size_t>(*index)])
                                                     : std::vector<VisibleGpu>();
}

/// The devices of the GPU or instance whose UUID begins with `entry`; empty if there are none or several.
std::vector<VisibleGpu> devices_by_uuid(const std::vector<Gpu>& gpus, const std::string& entry) {
  std::vector<std::vector<VisibleGpu>> matching;
  for (const auto& gpu : gpus) {
    if (gpu.uuid.starts_with(entry)) matching.push_back(devices_of(gpu));
    for (const auto& slice : gpu.slices) {
      if (slice.starts_with(entry)) matching.push_back({{slice, gpu.bus_id}});
    }
  }
  return matching.size() == 1 ? matching.front() : std::vector<VisibleGpu>();
}

}  // namespace

std::optional<GpuDriver> read_gpus(const std::string& library, GpuDetail detail) {
  const Nvml nvml(library);
  if (!nvml.running()) return std::nullopt;
  GpuDriver driver;
  driver.version = nvml.text("nvmlSystemGetDriverVersion");
  driver.cuda_version = nvml.value<int>("nvmlSystemGetCudaDriverVersion_v2");
  const unsigned count = nvml.value<unsigned>("nvmlDeviceGetCount_v2").value_or(0);
  for (unsigned i = 0; i < count; ++i) {
    // A GPU that a control group forbids to this process has no handle.
    const auto device = nvml.value<Device>("nvmlDeviceGetHandleByIndex_v2", i);
    if (!device) continue;
    driver.gpus.push_back(identify(nvml, *device));
    if (detail == GpuDetail::kAll) describe(nvml, *device, driver.gpus.back());
  }
  return driver;
}

std::vector<VisibleGpu> visible_gpus(const std::vector<Gpu>& gpus, const std::optional<std::string>& visible_devices) {
  std::vector<VisibleGpu> visible;
  if (!visible_devices) {
    for (const auto& gpu : gpus) {
      for (auto& device : devices_of(gpu)) visible.push_back(std::move(device));
    }
    return visible;
  }
  for (const std::string_view item : split(*visible_devices, ',')) {
    const std::string entry(trimmed(item));
    const bool is_uuid = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    const auto devices = is_uuid ? devices_by_uuid(gpus, entry) : devices_by_index(gpus, entry);
    if (devices.empty()) break;
    for (const auto& device : devices) {
      if (std::ranges::find(visible, device.uuid, &VisibleGpu::uuid) != visible.end()) return {};
      visible.push_back(device);
    }
  }
  return visible;
}

}  // namespace mn::launcher
