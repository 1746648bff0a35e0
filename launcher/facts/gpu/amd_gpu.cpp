#include "facts/gpu/amd_gpu.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <system_error>

#include <fcntl.h>

#include <mn/core/fd.hpp>
#include <mn/core/small_files.hpp>

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAmd = "0x1002";
constexpr std::int64_t kBusyPercent = 10;  // an idle GPU shows a few percent now and then

/// False if a control group forbids this process to open the GPU, although sysfs lists it.
bool may_open(const fs::path& device, const fs::path& root) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(device / "drm", error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("renderD")) continue;
    return static_cast<bool>(Fd(open((root / "dev/dri" / name).c_str(), O_RDWR | O_CLOEXEC)));
  }
  return false;
}

std::optional<Gpu> describe_amd(const fs::path& device, const fs::path& root) {
  const auto memory = leading_number(first_line(device / "mem_info_vram_total"));
  if (first_line(device / "vendor") != kAmd || !memory || !may_open(device, root)) return std::nullopt;
  Gpu gpu;
  gpu.bus_id = normal_bus_id(value_of_key(device / "uevent", "PCI_SLOT_NAME").value_or(""));
  gpu.uuid = first_line(device / "unique_id").value_or("");
  gpu.name = first_line(device / "product_name").value_or("AMD GPU");
  gpu.memory_mib = *memory >> 20;
  if (const auto busy = leading_number(first_line(device / "gpu_busy_percent")))
    gpu.processes = *busy >= kBusyPercent ? 1 : 0;
  gpu.health.uncorrected = leading_number(value_of_key(device / "ras/umc_err_count", "ue"));
  return gpu;
}

/// Replaces each GPU's unique id by the name that ROCR_VISIBLE_DEVICES accepts (amd_gpu.hpp).
void name_gpus(std::vector<Gpu>& gpus) {
  std::map<std::string, int> count;
  for (const auto& gpu : gpus) ++count[gpu.uuid];
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const bool is_unique = !gpus[i].uuid.empty() && count[gpus[i].uuid] == 1;
    gpus[i].uuid = is_unique ? "GPU-" + gpus[i].uuid : std::to_string(i);
  }
}

std::vector<Gpu> among(const std::vector<Gpu>& gpus, const std::vector<VisibleGpu>& visible) {
  std::vector<Gpu> chosen;
  for (const auto& each : visible) chosen.push_back(*std::ranges::find(gpus, each.uuid, &Gpu::uuid));
  return chosen;
}

}  // namespace

std::optional<GpuDriver> read_amd_gpus(const fs::path& root) {
  GpuDriver driver;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/class/drm", error)) {
    const std::string name = entry.path().filename();
    const bool is_card = name.starts_with("card") && name.find('-') == std::string::npos;  // not a connector
    if (!is_card) continue;
    if (auto gpu = describe_amd(entry.path() / "device", root)) driver.gpus.push_back(std::move(*gpu));
  }
  if (driver.gpus.empty()) return std::nullopt;
  std::ranges::sort(driver.gpus, {}, &Gpu::bus_id);
  name_gpus(driver.gpus);
  return driver;
}

std::vector<VisibleGpu> visible_amd_gpus(const std::vector<Gpu>& gpus, const std::optional<std::string>& by_rocr,
                                         const std::optional<std::string>& by_hip) {
  auto visible = visible_gpus(among(gpus, visible_gpus(gpus, by_rocr)), by_hip);
  for (auto& gpu : visible) gpu.is_amd = true;
  return visible;
}

}  // namespace mn::launcher
