#include <algorithm>
#include <set>

#include "checks/checks.hpp"
#include "facts/fatbin.hpp"

namespace mn::launcher {
namespace {

const Facts& gpus_of(const Facts& node) {
  static const Facts kNone = Facts::array();
  const Facts::json_pointer at("/gpu/gpus");
  return node.contains(at) ? node.at(at) : kNone;
}

/// Whether `is_bad(gpu)` for any GPU of the node.
template <typename Predicate>
bool any_gpu(const Facts& node, Predicate is_bad) {
  return std::ranges::any_of(gpus_of(node), is_bad);
}

/// The visible GPUs of a rank, by UUID.
std::set<std::string> visible(const Facts& rank) {
  std::set<std::string> uuids;
  for (const auto& gpu : rank.value("gpus", Facts::array())) uuids.insert(gpu.at(0).get<std::string>());
  return uuids;
}

}  // namespace

Findings check_devices(const JobFacts& job) {
  Findings findings;
  for (std::size_t node = 0; node < job.bindings.size(); ++node) {
    const auto ranks = job.layout.ranks_of(static_cast<int>(node));
    const auto can_see = [&](int rank) { return !visible(job.ranks[static_cast<std::size_t>(rank)]).empty(); };
    const auto without = std::ranges::count_if(job.bindings[node], [](const Binding& b) { return b.gpu < 0; });
    const auto sharing = std::ranges::count_if(job.bindings[node], &Binding::shares_gpu);
    if (sharing > 0 && !job.gpu_sharing_is_meant) {
      findings.push_back({"devices",
                          false,
                          {job.host(node)},
                          std::to_string(sharing) + " ranks share GPUs with others",
                          "start as many ranks as GPUs, or say with --oversubscribe-gpu that it is meant"});
    }
    if (without == 0 || std::ranges::none_of(ranks, can_see)) continue;
    findings.push_back(
        {"devices",
         true,
         {job.host(node)},
         std::to_string(without) + " of " + std::to_string(ranks.size()) + " ranks have no GPU of their own",
         "ask for as many GPUs as ranks (--gpus-per-node=N --ntasks-per-node=N), or add --oversubscribe-gpu"});
  }
  return findings;
}

Findings check_gpu_counts(const JobFacts& job) {
  JobFacts counted = job;
  for (auto& node : counted.nodes) node["gpu_count"] = gpus_of(node).size();
  return differing(counted, "devices", false, "/gpu_count", "the number of GPUs", "ask for --gpus-per-node=N");
}

Findings check_driver(const JobFacts& job) {
  Findings findings = differing(job, "driver", true, "/gpu/version", "the version of the NVIDIA driver",
                                "install one driver on all nodes, or leave the odd ones out (--exclude)");
  append(findings, where(job,
                         {"driver",
                          true,
                          {},
                          "the NVIDIA kernel module and libnvidia-ml are of different versions",
                          "reload the module or reboot: the driver was updated under a running kernel"},
                         [](const Facts& node) {
                           const auto module = node.value(Facts::json_pointer("/system/driver_module"), std::string());
                           const auto library = node.value(Facts::json_pointer("/gpu/version"), module);
                           return !module.empty() && module != library;
                         }));
  return findings;
}

Findings check_cuda_version(const JobFacts& job) {
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    const int served = job.nodes[node].value(Facts::json_pointer("/gpu/cuda"), 0) / 1000;
    const auto libraries = job.nodes[node].value(Facts::json_pointer("/program/libraries"), Facts::object());
    for (const auto& [name, facts] : libraries.items()) {
      constexpr std::string_view kRuntime = "libcudart.so.";
      if (!name.starts_with(kRuntime) || served == 0) continue;
      const int needed = std::atoi(name.c_str() + kRuntime.size());
      if (needed <= served) continue;
      add(findings,
          {"cuda",
           true,
           {job.host(node)},
           "the program needs CUDA " + std::to_string(needed) + ", the driver serves CUDA " + std::to_string(served),
           "update the driver, or use a build for CUDA " + std::to_string(served)});
    }
  }
  return findings;
}

Findings check_gpu_code(const JobFacts& job) {
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    const Facts files = job.nodes[node].value("gpu_code", Facts::object());
    for (const auto& [name, facts] : files.items()) {
      const auto code = facts.get<GpuCode>();
      for (const auto& gpu : gpus_of(job.nodes[node])) {
        const int capability = gpu.value("capability", 0);
        if (capability == 0 || code.empty() || runs_on(code, capability)) continue;
        const std::string number = std::to_string(capability / 10) + "." + std::to_string(capability % 10);
        add(findings,
            {"cuda",
             true,
             {job.host(node)},
             name + " has no code for the " + gpu.value("name", "GPU") + " (compute capability " + number + ")",
             "compile it for that too (CMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST=" + number +
                 "), or ask for other GPUs"});
        break;
      }
    }
  }
  return findings;
}

Findings check_gpu_models(const JobFacts& job) {
  JobFacts named = job;
  for (auto& node : named.nodes) {
    std::set<std::string> models;
    for (const auto& gpu : gpus_of(node)) {
      models.insert(gpu.value("name", "") + " " + std::to_string(gpu.value("memory_mib", 0) / 1024) + " GiB");
    }
    std::string all;
    for (const auto& model : models) all += (all.empty() ? "" : ", ") + model;
    node["gpu_models"] = all;
  }
  Findings findings = differing(named, "gpu-model", false, "/gpu_models", "the GPU model",
                                "ask for GPUs of one kind (--gpus=TYPE:N or --constraint)");
  if (!findings.empty()) return findings;
  for (auto& node : named.nodes) {
    node["ecc"] = any_gpu(node, [](const Facts& gpu) { return gpu.value("ecc", false); });
    unsigned watts = 0;
    for (const auto& gpu : gpus_of(node)) watts = std::max(watts, gpu.value("power_limit_w", 0U));
    node["watts"] = watts;
  }
  append(findings,
         differing(named, "gpu-model", false, "/ecc", "ECC of the GPUs' memory", "nvidia-smi -e 1 (or 0) on all"));
  append(findings, differing(named, "gpu-model", false, "/watts", "the power limit of the GPUs in watts",
                             "nvidia-smi -pl WATTS on all: the slowest GPU sets the pace"));
  return findings;
}

Findings check_gpu_modes(const JobFacts& job) {
  constexpr int kExclusive = 3;
  JobFacts cut = job;
  for (auto& node : cut.nodes) node["mig"] = any_gpu(node, [](const Facts& gpu) { return gpu.value("mig", false); });
  Findings findings = differing(cut, "gpu-mode", true, "/mig", "MIG mode", "nvidia-smi -mig 0 (or 1) on all nodes");
  for (std::size_t node = 0; node < job.bindings.size(); ++node) {
    const bool exclusive =
        any_gpu(job.nodes[node], [](const Facts& gpu) { return gpu.value("compute_mode", 0) == kExclusive; });
    const bool shared = std::ranges::any_of(job.bindings[node], [](const Binding& b) { return b.shares_gpu; });
    if (!exclusive || !shared) continue;
    findings.push_back({"gpu-mode",
                        true,
                        {job.host(node)},
                        "ranks share a GPU that is in exclusive mode",
                        "start fewer ranks, or nvidia-smi -c DEFAULT"});
  }
  return findings;
}

Findings check_gpu_health(const JobFacts& job) {
  Findings findings = where(
      job, {"gpu-health", false, {}, "a GPU waits for a reset to replace broken memory", "drain the node and reset it"},
      [](const Facts& node) { return any_gpu(node, [](const Facts& g) { return g.value("remap_pending", false); }); });
  append(findings, where(job,
                         {"gpu-health",
                          false,
                          {},
                          "a GPU is slowed down by heat or a power fault",
                          "tell the administrators; leave the node out (--exclude)"},
                         [](const Facts& node) {
                           return any_gpu(node, [](const Facts& g) { return g.value("throttled", false); });
                         }));
  append(findings, where(job,
                         {"gpu-health",
                          false,
                          {},
                          "other processes compute on the GPUs",
                          "nvidia-smi shows them; ask for whole nodes (--exclusive)"},
                         [](const Facts& node) {
                           return any_gpu(node, [](const Facts& g) { return g.value("processes", 0) > 0; });
                         }));
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    const auto xids = job.nodes[node].value(Facts::json_pointer("/system/xids"), std::vector<std::string>());
    if (xids.empty()) continue;
    std::string all;
    for (const auto& xid : xids) all += (all.empty() ? "" : ", ") + xid;
    add(findings, {"gpu-health",
                   false,
                   {job.host(node)},
                   "the kernel logged hardware errors of GPUs in the last day: " + all,
                   "look them up in NVIDIA's list of XIDs; drain the node, or leave it out (--exclude)"});
  }
  return findings;
}

Findings check_gpu_visibility(const JobFacts& job) {
  Findings findings;
  for (int node = 0; node < job.layout.node_count(); ++node) {
    const auto ranks = job.layout.ranks_of(node);
    // CUDA_VISIBLE_DEVICES does no harm to NCCL; a control group that hides devices from the driver does.
    const auto openable = [&](int rank) { return job.ranks[static_cast<std::size_t>(rank)].value("openable", ""); };
    const bool differs =
        std::ranges::any_of(ranks, [&](int rank) { return openable(rank) != openable(ranks.front()); });
    if (!differs) continue;
    findings.push_back({"gpu-visibility",
                        false,
                        {job.layout.hosts[static_cast<std::size_t>(node)]},
                        "ranks of the node may open different GPUs, so NCCL can't copy between them directly",
                        "srun --gpu-bind=none, or --gpus-per-node=N instead of --gpus-per-task"});
  }
  return findings;
}

}  // namespace mn::launcher
