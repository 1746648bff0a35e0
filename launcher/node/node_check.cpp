#include "node/node_check.hpp"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include <mn/core/environment.hpp>
#include <mn/core/file.hpp>
#include <mn/core/standard_output.hpp>

#include "checks/checks.hpp"

namespace mn::launcher {
namespace {

/// The checks of jobs that need no other node and no program. They see this node as a job with a rank for each GPU.
Findings checks_of_jobs(const NodeState& node) {
  JobFacts job;
  job.layout.hosts = {node.facts.host.value_or("")};
  job.layout.nodes.assign(std::max<std::size_t>(node.facts.machine.gpus.size(), 1), 0);
  job.nodes = {node.facts};
  if (auto& driver = job.nodes[0].driver) {
    for (auto& gpu : driver->gpus) gpu.processes = 0;  // gpu-processes of the expectations
  }
  Findings findings;
  for (Check* check :
       {check_fabric, check_driver, check_gpu_health, check_memlock, check_shm, check_temporary_folder}) {
    append(findings, check(job));
  }
  return findings;
}

Findings check_gpus_of_bus(const NodeState& node) {
  if (!node.driver_answers) {
    return {error_of("driver", "the driver of the GPUs does not answer",
                     "look at dmesg and reboot; without persistence mode its start takes long (nvidia-persistenced)")};
  }
  Findings findings;
  const auto& driver = node.facts.driver;
  for (const auto& device : node.devices) {
    const bool is_shown = driver && std::ranges::find(driver->gpus, device.bus_id, &Gpu::bus_id) != driver->gpus.end();
    if (!device.is_gpu || !device.on_bus || is_shown) continue;
    findings.push_back(error_of("driver",
                                "GPU " + device.bus_id + " is on the PCI bus, but the driver does not show it",
                                "look at dmesg for XIDs, load the driver (modprobe nvidia), or reboot"));
  }
  return findings;
}

Findings check_links(const NodeState& node) {
  constexpr std::int64_t kMaxLanes = 32;  // virtual functions report 0 or 255
  Findings findings;
  for (const auto& device : node.devices) {
    const std::string name = (device.is_gpu ? "GPU " : "network card ") + device.bus_id;
    const auto [width, most] = std::pair(device.width.value_or(0), device.max_width.value_or(0));
    if (!device.on_bus) {
      findings.push_back(error_of("devices", name + " has fallen off the PCI bus", "reboot; reseat or replace it"));
    } else if (width >= 1 && width < most && most <= kMaxLanes) {
      findings.push_back(error_of(
          "devices",
          name + " has a PCI link of " + std::to_string(width) + " lanes, where it could have " + std::to_string(most),
          "reseat it and look at its riser; --skip devices if the slot has no more"));
    }
  }
  return findings;
}

/// Without ib-ports, each port of an InfiniBand or RoCE card must be active.
Findings check_ports(const NodeState& node, const Expectations& expected) {
  if (expected.contains("ib-ports")) return {};
  Findings findings;
  for (const auto& port : node.facts.system.ports) {
    if (!is_fabric_port(port.name) || port.state == kActivePort) continue;
    findings.push_back(error_of("fabric",
                                "the network port " + port.name + " is " + port.state.value_or("in no known state"),
                                "look at card, cable and switch (ibstat); ib-ports=N if it is unused"));
  }
  return findings;
}

Findings check_rest(const NodeState& node) {
  Findings findings;
  if (!node.clock_is_synchronized) {
    findings.push_back(
        error_of("clock", "the clock is not synchronized", "start chronyd (with rtcsync) or systemd-timesyncd"));
  }
  for (const auto& [path, fault] : node.mounts) {
    if (fault.empty()) continue;
    findings.push_back(
        error_of("mounts", path + " cannot be reached: " + fault, "look at its server; umount -l, mount"));
  }
  return findings;
}

Expectations read_expectations(const std::string& file) try {
  constexpr std::uintmax_t kMaxBytes = 1 << 20;
  std::error_code none;
  if (!file.empty() && std::filesystem::is_regular_file(file, none) &&
      std::filesystem::file_size(file, none) > kMaxBytes) {
    throw UsageError("--expect: " + file + " has more than 1 MiB: give a file of lines KEY=VALUE");
  }
  return file.empty() ? Expectations() : parse_expectations(file, read_file(file));
} catch (const DataError& error) {
  throw UsageError("--expect: " + std::string(error.what()));
}

}  // namespace

Findings check_node(const NodeState& node, const Expectations& expected, const Options& options) {
  Findings all;
  for (auto& findings : {check_gpus_of_bus(node), check_links(node), checks_of_jobs(node), check_ports(node, expected),
                         compare_with_expectations(node, expected), check_rest(node)}) {
    append(all, findings);
  }
  std::erase_if(all, [&](const Finding& finding) { return has_name(options.skip, finding.check); });
  for (auto& finding : all) {
    finding.hosts = {node.facts.host.value_or("")};
    finding.is_error = !has_name(options.warn, finding.check);
  }
  return all;
}

int run_node_check(const Options& options) {
  constexpr std::chrono::milliseconds kPatience{1500};  // Slurm waits for this program
  const Expectations expected = read_expectations(options.expect);
  Surroundings here;
  here.variables = Variables::of_this_process();
  here.folder = "/";
  here.root = hardware_root(here.variables.get("MN_HARDWARE_ROOT"));
  const Findings findings = check_node(read_node(here, kPatience), expected, options);
  std::string text;
  for (const auto& finding : findings) text += to_line(finding) + "\n";
  if (options.json) text = to_json(findings).dump() + "\n";
  write_standard_output(text);
  return std::ranges::any_of(findings, &Finding::is_error) ? 1 : 0;
}

}  // namespace mn::launcher
