#include "node/node_state.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <list>
#include <sstream>

#include <sys/statvfs.h>
#include <sys/timex.h>

#include <mn/core/environment.hpp>
#include <mn/core/json.hpp>
#include <mn/core/small_files.hpp>

#include "facts/collect.hpp"
#include "facts/gpu/amd_gpu.hpp"
#include "facts/json_fields.hpp"
#include "node/inquiry.hpp"
#include "place/processes.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

std::optional<PciDevice> describe_device(const fs::path& folder) {
  const std::string kind = first_line(folder / "class").value_or("");
  const std::string vendor = first_line(folder / "vendor").value_or("");
  const bool is_display = kind.starts_with("0x03") || kind.starts_with("0x12");
  const bool is_gpu = is_display && (vendor == "0x10de" || vendor == "0x1002");
  const bool is_card = kind.starts_with("0x0207") || (kind.starts_with("0x02") && vendor == "0x15b3");
  if (!is_gpu && !is_card) return std::nullopt;
  std::ifstream config(folder / "config", std::ios::binary);
  char id[2] = {};
  config.read(id, sizeof id);
  const bool ones = config && id[0] == '\xff' && id[1] == '\xff';
  return PciDevice{.bus_id = folder.filename().string(),
                   .is_gpu = is_gpu,
                   .on_bus = !ones,
                   .width = leading_number(first_line(folder / "current_link_width")),
                   .max_width = leading_number(first_line(folder / "max_link_width"))};
}

std::vector<PciDevice> read_devices(const fs::path& root) {
  std::vector<PciDevice> devices;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/bus/pci/devices", error)) {
    if (auto device = describe_device(entry.path())) devices.push_back(*device);
  }
  std::ranges::sort(devices, {}, &PciDevice::bus_id);
  return devices;
}

/// Whether the process belongs to a job of Slurm, by its control group or by its ancestors.
bool is_of_job(pid_t process, const fs::path& root) {
  std::ifstream groups(root / "proc" / std::to_string(process) / "cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.find("/job_") != std::string::npos) return true;
  }
  for (; process > 1; process = parent_process(process)) {
    if (program_of_process(process).starts_with("slurmstepd")) return true;
  }
  return false;
}

/// The driver's answer as JSON, "null" without a driver. Gpu::processes counts processes outside of all jobs only.
std::string ask_driver(const fs::path& root) {
  auto driver = read_gpus();
  if (!driver) driver = read_amd_gpus(root);
  if (!driver) return "null";
  for (auto& gpu : driver->gpus) {
    const auto orphans =
        std::ranges::count_if(gpu.process_ids, [&](unsigned id) { return !is_of_job(static_cast<pid_t>(id), root); });
    if (gpu.processes) gpu.processes = static_cast<int>(orphans);
  }
  return json_fields::write(*driver).dump();
}

std::string ask_mount(const fs::path& path) {
  struct statvfs status {};
  return statvfs(path.c_str(), &status) == 0 ? "" : std::strerror(errno);
}

bool is_network_type(const std::string& type) {
  constexpr const char* kTypes[] = {"nfs",  "nfs4",   "lustre", "ceph",  "cifs",           "smb3",
                                    "gpfs", "beegfs", "wekafs", "panfs", "fuse.glusterfs", "fuse.sshfs"};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

struct MountInquiry {
  std::string path;
  Inquiry inquiry;
  MountInquiry(const std::string& mounted, const fs::path& file)
      : path(mounted), inquiry([&] { return ask_mount(file); }) {}
};

std::list<MountInquiry> ask_mounts(NodeState& state, const fs::path& root) {
  std::list<MountInquiry> asked;
  std::ifstream lines(root / "proc/self/mounts");
  for (std::string line, device, path, type; std::getline(lines, line);) {
    if (!(std::istringstream(line) >> device >> path >> type)) continue;
    state.mounted.push_back(path);
    if (is_network_type(type)) asked.emplace_back(path, root / fs::path(path).relative_path());
  }
  return asked;
}

/// "SwapTotal:  1024 kB" in /proc/meminfo gives 1.
std::optional<std::int64_t> mib_of(const fs::path& meminfo, const char* key) {
  const auto kib = leading_number(value_of_key(meminfo, key));
  return kib ? std::optional(*kib >> 10) : std::nullopt;
}

bool is_clock_synchronized() {
  timex state{};
  return adjtimex(&state) < 0 || (state.status & STA_UNSYNC) == 0;
}

}  // namespace

NodeState read_node(const Surroundings& here, std::chrono::milliseconds patience) {
  const auto deadline = Inquiry::Clock::now() + patience;
  NodeState state;
  Inquiry driver([&] { return ask_driver(here.root); });
  auto mounts = ask_mounts(state, here.root);
  state.facts.host = host_name();
  state.facts.system = collect_system_facts(here);
  state.devices = read_devices(here.root);
  for (const auto& device : state.devices) {
    if (device.is_gpu) state.facts.machine.gpus.push_back({device.bus_id, {}, ""});
  }
  const fs::path meminfo = here.root / "proc/meminfo";
  state.memory_mib = mib_of(meminfo, "MemTotal");
  if (const auto total = mib_of(meminfo, "SwapTotal")) {
    state.swap_used_mib = *total - mib_of(meminfo, "SwapFree").value_or(*total);
  }
  state.clock_is_synchronized = is_clock_synchronized();
  const auto answer = driver.answer(deadline);
  state.driver_answers = answer.has_value();
  if (answer && *answer != "null") {
    state.facts.driver.emplace();
    json_fields::read(nlohmann::json::parse(*answer), "the driver", *state.facts.driver);
  }
  for (auto& [path, inquiry] : mounts) state.mounts.push_back({path, inquiry.answer(deadline).value_or("no answer")});
  return state;
}

}  // namespace mn::launcher
