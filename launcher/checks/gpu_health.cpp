#include <algorithm>
#include <map>
#include <string>

#include <mn/core/text.hpp>

#include "checks/checks.hpp"
#include "checks/comparison.hpp"

namespace mn::launcher {
namespace {

/// The number of NVLinks of a sound GPU, by model: the highest number that are up on any such GPU of the job.
using UsualLinks = std::map<std::string, int>;

UsualLinks usual_links(const JobFacts& job) {
  UsualLinks usual;
  for (const auto& node : job.nodes) {
    if (!node.driver) continue;
    for (const auto& gpu : node.driver->gpus) {
      if (gpu.name && gpu.health.links) usual[*gpu.name] = std::max(usual[*gpu.name], *gpu.health.links);
    }
  }
  return usual;
}

struct Ailment {
  std::string what;  ///< empty: the GPU is well
  std::string cure;
  std::string advice;  ///< Finding::advice
};

Ailment memory_ailment(const Gpu& gpu) {
  const std::string reset = "drain the node and reset it (nvidia-smi --gpu-reset, rocm-smi --gpureset, or reboot)";
  if (gpu.health.remap_failed == true)
    return {"has no spare memory rows left", "replace it; leave the node out", "isolate"};
  if (gpu.remap_pending == true || gpu.health.retirement_pending == true) {
    return {"waits for a reset to replace broken memory", reset, "reset"};
  }
  const auto errors = gpu.health.uncorrected.value_or(0);
  return errors > 0 ? Ailment{"has counted " + std::to_string(errors) + " uncorrected memory errors", reset, "reset"}
                    : Ailment();
}

Ailment link_ailment(const Gpu& gpu, const UsualLinks& usual) {
  const auto& health = gpu.health;
  if (health.in_fabric == false) {
    return {"is not in its NVSwitch fabric", "restart nvidia-fabricmanager there and look at its log", "reset"};
  }
  const auto most = gpu.name ? usual.find(*gpu.name) : usual.end();
  if (health.links && most != usual.end() && *health.links < most->second) {
    return {"has " + std::to_string(*health.links) + " NVLinks up, others of its kind " + std::to_string(most->second),
            "nvidia-smi nvlink -s; reset the GPU, or leave the node out (--exclude)", "reset"};
  }
  const auto recoveries = health.link_recoveries.value_or(0);
  return recoveries > 0 ? Ailment{"has counted " + std::to_string(recoveries) + " recoveries of NVLinks",
                                  "nvidia-smi nvlink -e; leave the node out (--exclude) if they grow", "watch"}
                        : Ailment();
}

/// Returns the gravest ailment of the GPU. Broken memory comes first, because broken memory may cause the rest.
Ailment ailment_of(const Gpu& gpu, const UsualLinks& usual) {
  Ailment ailment = memory_ailment(gpu);
  if (ailment.what.empty()) ailment = link_ailment(gpu, usual);
  if (ailment.what.empty() && gpu.throttled == true) {
    return {"is slowed down by heat or a power fault", "tell the administrators; leave the node out (--exclude)",
            "watch"};
  }
  return ailment;
}

Findings other_processes(const JobFacts& job) {
  const auto is_busy = [](const Gpu& gpu) { return gpu.processes.value_or(0) > 0; };
  return affected(
      job,
      warning_of("gpu-health", "other processes compute on the GPUs",
                 "nvidia-smi (rocm-smi) shows them; ask for whole nodes (--exclusive)"),
      [&](const NodeFacts& node) { return node.driver && std::ranges::any_of(node.driver->gpus, is_busy); });
}

}  // namespace

Findings check_gpu_health(const JobFacts& job) {
  const UsualLinks usual = usual_links(job);
  Findings findings = on_each_node(job, [&](std::size_t node, auto report) {
    if (!job.nodes[node].driver) return;
    for (const auto& gpu : job.nodes[node].driver->gpus) {
      const auto [what, cure, advice] = ailment_of(gpu, usual);
      if (!what.empty()) report(warning_of("gpu-health", "GPU " + gpu.bus_id + " " + what, cure, advice));
    }
  });
  append(findings, other_processes(job));
  append(findings, on_each_node(job, [&](std::size_t node, auto report) {
           const auto& xids = job.nodes[node].system.xids;
           if (xids.empty()) return;
           report(warning_of("gpu-health", "the kernel logged hardware errors of GPUs in the last day: " + join(xids),
                             "look them up in NVIDIA's list of XIDs; drain the node, or leave it out (--exclude)"));
         }));
  return findings;
}

}  // namespace mn::launcher
