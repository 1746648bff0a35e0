#include "facts/gpu/nvidia_gpu.hpp"

#include <algorithm>
#include <charconv>

#include <mn/core/text.hpp>

#include "facts/gpu/nvml.hpp"

namespace mn::launcher {
namespace {

using nvml::Device;
using nvml::kSuccess;
using nvml::Nvml;
using nvml::Status;

constexpr Status kInsufficientSize = 7;
constexpr unsigned kMigEnabled = 1;
// Reasons of nvmlClocksThrottleReason: hardware slowdown, thermal, power brake, software thermal slowdown.
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

std::string uuid_of(const Nvml& nvml, Device device) {
  char text[96] = {};
  return nvml.call("nvmlDeviceGetUUID", device, +text, unsigned{sizeof text}) == kSuccess ? text : "";
}

std::vector<std::string> slices_of(const Nvml& nvml, Device device) {
  std::vector<std::string> slices;
  const unsigned most = nvml.value<unsigned>("nvmlDeviceGetMaxMigDeviceCount", device).value_or(0);
  for (unsigned i = 0; i < most; ++i) {
    Device slice = nullptr;
    if (nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", device, i, &slice) != kSuccess) continue;
    slices.push_back(uuid_of(nvml, slice));
  }
  return slices;
}

std::optional<int> process_count(const Nvml& nvml, Device device) {
  std::vector<Process> list(64);
  unsigned count = static_cast<unsigned>(list.size());
  const Status status = nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, list.data());
  if (status != kSuccess && status != kInsufficientSize) return std::nullopt;
  return static_cast<int>(count);
}

std::optional<int> capability_of(const Nvml& nvml, Device device) {
  int major = 0;
  int minor = 0;
  const Status status = nvml.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor);
  return status == kSuccess ? std::optional(10 * major + minor) : std::nullopt;
}

/// The current mode, from an NVML function with a current and a pending mode.
std::optional<unsigned> current_mode(const Nvml& nvml, const char* name, Device device) {
  unsigned current = 0;
  unsigned pending = 0;
  return nvml.call(name, device, &current, &pending) == kSuccess ? std::optional(current) : std::nullopt;
}

Gpu identify(const Nvml& nvml, Device device) {
  Gpu gpu;
  gpu.uuid = uuid_of(nvml, device);
  if (const auto pci = nvml.value<PciInfo>("nvmlDeviceGetPciInfo_v3", device)) gpu.bus_id = normal_bus_id(pci->bus_id);
  if (const auto mig = current_mode(nvml, "nvmlDeviceGetMigMode", device)) gpu.mig = *mig == kMigEnabled;
  if (gpu.mig == true) gpu.slices = slices_of(nvml, device);
  return gpu;
}

void describe(const Nvml& nvml, Device device, Gpu& gpu) {
  char name[96] = {};
  if (nvml.call("nvmlDeviceGetName", device, +name, unsigned{sizeof name}) == kSuccess) gpu.name = name;
  if (const auto memory = nvml.value<Memory>("nvmlDeviceGetMemoryInfo", device)) gpu.memory_mib = memory->total >> 20;
  gpu.capability = capability_of(nvml, device);
  if (const auto ecc = current_mode(nvml, "nvmlDeviceGetEccMode", device)) gpu.ecc = *ecc != 0;
  const auto milliwatts = nvml.value<unsigned>("nvmlDeviceGetEnforcedPowerLimit", device);
  if (milliwatts) gpu.power_limit_w = *milliwatts / 1000;
  gpu.compute_mode = nvml.value<int>("nvmlDeviceGetComputeMode", device);
  if (const auto rows = remapped_rows(nvml, device)) gpu.remap_pending = rows->pending;
  const auto reasons = nvml.value<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device);
  if (reasons) gpu.throttled = (*reasons & kBadThrottle) != 0;
  gpu.processes = process_count(nvml, device);
  gpu.health = read_health(nvml, device);
}

/// The GPU, or the instances of a GPU in MIG mode, perhaps none.
std::vector<VisibleGpu> devices_of(const Gpu& gpu) {
  if (gpu.mig != true) return {{gpu.uuid, gpu.bus_id}};
  std::vector<VisibleGpu> instances;
  for (const auto& slice : gpu.slices) instances.push_back({slice, gpu.bus_id});
  return instances;
}

std::vector<VisibleGpu> devices_by_index(const std::vector<Gpu>& gpus, const std::string& entry) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  const bool is_index = error == std::errc() && end == entry.data() + entry.size() && index < gpus.size();
  return is_index ? devices_of(gpus[index]) : std::vector<VisibleGpu>();
}

/// A shortened UUID that matches several GPUs names no GPU.
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

std::string without_blanks(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

std::optional<GpuDriver> read_gpus(const std::string& library, GpuDetail detail) {
  const Nvml nvml(library);
  if (!nvml.running()) return std::nullopt;
  GpuDriver driver;
  char version[96] = {};
  if (nvml.call("nvmlSystemGetDriverVersion", +version, unsigned{sizeof version}) == kSuccess) driver.version = version;
  int cuda_version = 0;
  if (nvml.call("nvmlSystemGetCudaDriverVersion_v2", &cuda_version) == kSuccess) driver.cuda_version = cuda_version;
  unsigned count = 0;
  nvml.call("nvmlDeviceGetCount_v2", &count);
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    // A control group may forbid the GPU to this process.
    if (nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &device) != kSuccess) continue;
    driver.gpus.push_back(identify(nvml, device));
    if (detail == GpuDetail::kAll) describe(nvml, device, driver.gpus.back());
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
    const std::string entry = without_blanks(std::string(item));
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
