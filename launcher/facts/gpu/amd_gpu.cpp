#include "facts/gpu/amd_gpu.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>

#include <fcntl.h>

#include <mn/core/fd.hpp>

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAmd = "0x1002";
constexpr std::uint64_t kBusyPercent = 10;  // an idle one shows a few now and then

std::optional<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// What stands behind `key` in the first line that begins so; empty if there is none.
std::string value_in(const fs::path& file, std::string_view key = "") {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return line.substr(key.size());
  }
  return "";
}

/// A control group forbids to open a device, not to see it.
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
  const auto memory = number_in(value_in(device / "mem_info_vram_total"));
  if (value_in(device / "vendor") != kAmd || !memory || !may_open(device, root)) return std::nullopt;
  Gpu gpu;
  gpu.bus_id = normal_bus_id(value_in(device / "uevent", "PCI_SLOT_NAME="));
  gpu.uuid = value_in(device / "unique_id");
  const std::string name = value_in(device / "product_name");
  gpu.name = name.empty() ? "AMD GPU" : name;
  gpu.memory_mib = *memory >> 20;
  if (const auto busy = number_in(value_in(device / "gpu_busy_percent"))) gpu.processes = *busy >= kBusyPercent ? 1 : 0;
  gpu.health.uncorrected = number_in(value_in(device / "ras/umc_err_count", "ue: "));
  return gpu;
}

/// From ids to names.
void name_gpus(std::vector<Gpu>& gpus) {
  std::map<std::string, int> count;
  for (const auto& gpu : gpus) ++count[gpu.uuid];
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const bool is_unique = !gpus[i].uuid.empty() && count[gpus[i].uuid] == 1;
    gpus[i].uuid = is_unique ? "GPU-" + gpus[i].uuid : std::to_string(i);
  }
}

/// Those of `gpus` that `visible` names, in its order.
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
