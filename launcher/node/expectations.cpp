#include "node/expectations.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <mn/core/error.hpp>
#include <mn/core/small_files.hpp>
#include <mn/core/suggest.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

enum class Rule { kAtLeast, kAtMost, kEqual };

struct Row {
  const char* key;
  const char* check;  ///< name of the finding
  const char* what;
  Rule rule;
  const char* usual;  ///< value without a file; empty: the file alone decides
  const char* remedy;
  /// No value: nothing to compare. An empty text differs from every expected value.
  std::optional<std::string> (*measured)(const NodeState& node);
};

std::optional<std::string> number(std::optional<std::int64_t> value) {
  return value ? std::optional(std::to_string(*value)) : std::nullopt;
}
std::optional<std::string> free_mib(const FolderFacts& folder) {
  return folder.free_mib ? number(static_cast<std::int64_t>(*folder.free_mib)) : std::nullopt;
}
const std::vector<Gpu>& gpus_of(const NodeState& node) {
  static const std::vector<Gpu> kNone;
  return node.facts.driver ? node.facts.driver->gpus : kNone;
}
std::int64_t active_ports(const NodeState& node) {
  return std::ranges::count_if(node.facts.system.ports, [](const PortFacts& port) {
    return is_fabric_port(port.name) && port.state == kActivePort;
  });
}
std::optional<std::string> slowest_port(const NodeState& node) {
  std::optional<std::int64_t> slowest;
  for (const auto& port : node.facts.system.ports) {
    const auto rate = is_fabric_port(port.name) && port.state == kActivePort ? leading_number(port.rate) : std::nullopt;
    if (rate) slowest = std::min(slowest.value_or(*rate), *rate);
  }
  return number(slowest);
}
/// The first GPU model, or the first unlike it.
std::optional<std::string> model_of(const NodeState& node) {
  const auto& gpus = gpus_of(node);
  if (gpus.empty()) return "none";
  const auto odd = std::ranges::find_if(gpus, [&](const Gpu& gpu) { return gpu.name != gpus.front().name; });
  return (odd == gpus.end() ? gpus.front() : *odd).name;
}
std::optional<std::string> orphans(const NodeState& node) {
  std::int64_t count = 0;
  for (const auto& gpu : gpus_of(node)) count += gpu.processes.value_or(0);
  return number(count);
}

constexpr Row kRows[] = {
    {"gpus", "devices", "GPUs that the driver shows", Rule::kEqual, "", "look at nvidia-smi and dmesg; reboot",
     [](const NodeState& node) { return number(static_cast<std::int64_t>(gpus_of(node).size())); }},
    {"gpu-model", "gpu-model", "the model of the GPUs", Rule::kEqual, "", "correct the site's file or Slurm's features",
     model_of},
    {"driver", "driver", "the version of the driver", Rule::kEqual, "", "install that driver and reboot",
     [](const NodeState& node) {
       return node.facts.driver ? node.facts.driver->version : std::optional<std::string>("none");
     }},
    {"gpu-processes", "gpu-health", "processes on GPUs that belong to no job", Rule::kAtMost, "0",
     "end them (nvidia-smi lists them): an earlier job has left them", orphans},
    {"ib-ports", "fabric", "active InfiniBand and RoCE ports", Rule::kAtLeast, "",
     "look at card, cable and switch (ibstat)", [](const NodeState& node) { return number(active_ports(node)); }},
    {"ib-rate", "fabric", "Gb/s of the slowest active port", Rule::kAtLeast, "",
     "look at its cable and its port of the switch", slowest_port},
    {"cpus", "cpu", "CPUs that are online", Rule::kAtLeast, "", "look at the firmware's settings (SMT, cores)",
     [](const NodeState& node) { return number(node.facts.system.cpu.count); }},
    {"memory-mib", "memory", "MiB of memory", Rule::kAtLeast, "", "look for a module that is broken (dmidecode -t 17)",
     [](const NodeState& node) { return number(node.memory_mib); }},
    {"swap-mib", "memory", "MiB of swap in use", Rule::kAtMost, "1024",
     "look for what fills the memory; swapoff -a && swapon -a",
     [](const NodeState& node) { return number(node.swap_used_mib); }},
    {"kernel", "cpu", "the kernel", Rule::kEqual, "", "boot that kernel",
     [](const NodeState& node) { return node.facts.system.cpu.kernel; }},
    {"huge-pages", "cpu", "the setting of transparent huge pages", Rule::kEqual, "",
     "write it to /sys/kernel/mm/transparent_hugepage/enabled",
     [](const NodeState& node) { return node.facts.system.cpu.huge_pages; }},
    {"nofile", "limits", "open files that a process may have", Rule::kAtLeast, "1024",
     "set LimitNOFILE=131072 in slurmd.service",
     [](const NodeState& node) -> std::optional<std::string> {
       const auto limit = node.facts.system.limits.nofile;
       return limit == LimitFacts::kUnlimited ? std::nullopt : number(limit);
     }},
    {"shm-mib", "shm", "MiB free in /dev/shm", Rule::kAtLeast, "", "remove stale files there, or enlarge it",
     [](const NodeState& node) { return free_mib(node.facts.system.shm); }},
    {"tmp-mib", "tmp", "MiB free in the folder for temporary files", Rule::kAtLeast, "100", "clean it",
     [](const NodeState& node) { return free_mib(node.facts.system.tmp); }},
};

bool holds(const Row& row, const std::string& measured, const std::string& wanted) {
  if (row.rule == Rule::kEqual) return measured == wanted;
  const auto value = leading_number(measured).value_or(0);
  const auto limit = leading_number(wanted).value_or(0);
  return row.rule == Rule::kAtLeast ? value >= limit : value <= limit;
}

std::string without_last_slash(const std::filesystem::path& path) {
  std::string folder = path.lexically_normal().string();
  if (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

void check_line(const Row* row, const std::string& where, const std::string& key, const std::string& value) {
  if (row == nullptr && key != "mount") {
    std::vector<std::string> keys{"mount"};
    for (const auto& each : kRows) keys.emplace_back(each.key);
    const auto near = nearest_name(key, keys);
    throw UsageError(where + "there is no key \"" + key + "\"; " +
                     (near ? "did you mean " + *near + "?" : "there are " + join(keys)));
  }
  const bool is_number = parse_number<std::int64_t>(value).value_or(-1) >= 0;
  if (value.empty() || (row != nullptr && row->rule != Rule::kEqual && !is_number)) {
    throw UsageError(where + key + " is \"" + value + "\": give " + (value.empty() ? "a value" : "a whole number"));
  }
}

}  // namespace

Expectations parse_expectations(const std::string& file, const std::string& text) {
  if (text.find('\0') != std::string::npos) {
    throw UsageError(file + " is no text: there is a NUL character in it; write lines KEY=VALUE");
  }
  Expectations expected;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = file + ":" + std::to_string(++number) + ": ";
    const std::string entry(trimmed(line.substr(0, line.find('#'))));
    if (entry.empty()) continue;
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) throw UsageError(where + "\"" + entry + "\" is not KEY=VALUE");
    const std::string key(trimmed(entry.substr(0, equals)));
    const std::string value(trimmed(entry.substr(equals + 1)));
    const auto row = std::ranges::find(kRows, key, &Row::key);
    check_line(row == std::end(kRows) ? nullptr : row, where, key, value);
    auto& values = expected[key];
    if (!values.empty() && key != "mount") throw UsageError(where + key + " is there twice");
    values.push_back(value);
  }
  return expected;
}

Findings compare_with_expectations(const NodeState& node, const Expectations& expected) {
  constexpr const char* kWords[] = {"at least ", "at most ", ""};
  Findings findings;
  for (const auto& row : kRows) {
    const auto given = expected.find(row.key);
    const std::string wanted = given == expected.end() ? row.usual : given->second.front();
    const auto measured = row.measured(node);
    if (wanted.empty() || !measured || holds(row, *measured, wanted)) continue;
    const std::string what = std::string(row.what) + ": " + *measured + ", where " +
                             kWords[static_cast<int>(row.rule)] + wanted + " is expected (" + row.key + ")";
    findings.push_back(error_of(row.check, what, row.remedy));
  }
  const auto mounts = expected.find("mount");
  if (mounts == expected.end()) return findings;
  for (const auto& path : mounts->second) {
    const std::filesystem::path folder = without_last_slash(path);
    std::error_code error;
    const auto target = std::filesystem::read_symlink(folder, error);  // looks at the link alone, not at its server
    const bool is_mounted = has_name(node.mounted, folder) ||
                            (!error && has_name(node.mounted, without_last_slash(folder.parent_path() / target)));
    if (is_mounted) continue;
    findings.push_back(error_of("mounts", path + " is not mounted", "mount it, and look at /etc/fstab and autofs"));
  }
  return findings;
}

}  // namespace mn::launcher
