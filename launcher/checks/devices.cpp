#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <type_traits>

#include <mn/core/text.hpp>

#include "checks/checks.hpp"
#include "checks/comparison.hpp"
#include "facts/elf.hpp"

namespace mn::launcher {
namespace {

const std::vector<Gpu>& gpus_of(const NodeFacts& node) {
  static const std::vector<Gpu> kNone;
  return node.driver ? node.driver->gpus : kNone;
}

template <typename Fact>
auto greatest(const NodeFacts& node, Fact fact) {
  std::remove_cvref_t<std::invoke_result_t<Fact, const Gpu&>> most;
  for (const auto& gpu : gpus_of(node)) most = std::max(most, std::invoke(fact, gpu));
  return most;
}

template <typename Fact>
auto least(const NodeFacts& node, Fact fact) {
  std::invoke_result_t<Fact, const Gpu&> lowest;
  for (const auto& gpu : gpus_of(node)) {
    if (const auto value = fact(gpu)) lowest = std::min(lowest.value_or(*value), *value);
  }
  return lowest;
}

/// The models of the node's GPUs with their memory, such as "H100 79 GiB". No value if any model is unknown.
std::optional<std::string> models_of(const NodeFacts& node) {
  if (!has_gpus(node)) return std::nullopt;
  std::set<std::string> models;
  for (const auto& gpu : gpus_of(node)) {
    if (!gpu.name || !gpu.memory_mib) return std::nullopt;
    models.insert(*gpu.name + " " + std::to_string(*gpu.memory_mib / 1024) + " GiB");
  }
  return join(models);
}

bool lacks_driver(const NodeFacts& node) { return !node.driver && !node.machine.gpus.empty(); }

}  // namespace

Findings check_devices(const JobFacts& job) {
  return on_each_node(job, [&](std::size_t node, auto report) {
    if (node >= job.bindings.size()) return;
    const auto ranks = job.layout.ranks_of(static_cast<int>(node));
    const auto can_see = [&](int rank) { return !job.rank(rank).resources.gpus.empty(); };
    const auto without = std::ranges::count_if(job.bindings[node], [](const Binding& b) { return b.gpu < 0; });
    const auto sharing = std::ranges::count_if(job.bindings[node], &Binding::shares_gpu);
    if (sharing > 0 && !job.gpu_sharing_is_meant) {
      report(warning_of("devices", std::to_string(sharing) + " ranks share GPUs with others",
                        "start as many ranks as GPUs, or say with --oversubscribe-gpu that it is meant"));
    }
    if (without == 0 || std::ranges::none_of(ranks, can_see)) return;
    report(error_of(
        "devices", std::to_string(without) + " of " + std::to_string(ranks.size()) + " ranks have no GPU of their own",
        "ask for as many GPUs as ranks (--gpus-per-node=N --ntasks-per-node=N), or add --oversubscribe-gpu"));
  });
}

Findings check_gpu_counts(const JobFacts& job) {
  if (std::ranges::none_of(job.nodes, has_gpus)) return {};
  const auto count = [](const NodeFacts& node) {
    return has_gpus(node) ? std::optional(gpus_of(node).size()) : std::nullopt;
  };
  const auto has_none = [&](const NodeFacts& node) {
    const bool is_known = job.runs("driver") && lacks_driver(node);
    return !has_gpus(node) && !is_known;
  };
  Findings findings = differences(job, warning_of("devices", "the number of GPUs", "ask for --gpus-per-node=N"), count);
  append(findings,
         affected(job,
                  warning_of("devices",
                             "there is no GPU for this job, as there is on other nodes: ranks run on the CPU there",
                             "ask for GPUs on every node (--gpus-per-node=N), or --skip devices if it is meant"),
                  has_none));
  return findings;
}

Findings check_driver(const JobFacts& job) {
  const auto version = [](const NodeFacts& node) { return node.driver ? node.driver->version : std::nullopt; };
  const auto has_another_module = [](const NodeFacts& node) {
    const auto& module = node.system.driver_module;
    return module && node.driver && node.driver->version && *module != *node.driver->version;
  };
  Findings findings = differences(job,
                                  error_of("driver", "the version of the NVIDIA driver",
                                           "install one driver on all nodes, or leave the odd ones out (--exclude)"),
                                  version);
  append(findings, affected(job,
                            error_of("driver", "the NVIDIA kernel module and libnvidia-ml are of different versions",
                                     "reload the module or reboot: the driver was updated under a running kernel"),
                            has_another_module));
  if (std::ranges::none_of(job.nodes, has_gpus)) return findings;
  append(
      findings,
      affected(job,
               error_of("driver", "there are GPUs, but no driver that answers",
                        "load it (modprobe nvidia; nvidia-smi must list the GPUs), or leave the node out (--exclude)"),
               lacks_driver));
  return findings;
}

Findings check_cuda_version(const JobFacts& job) {
  return on_each_node(job, [&](std::size_t node, auto report) {
    const auto& driver = job.nodes[node].driver;
    const auto& libraries = job.nodes[node].program.libraries;
    if (!driver || !driver->cuda_version || !libraries) return;
    const int served = *driver->cuda_version / 1000;
    for (const auto& [name, library] : *libraries) {
      constexpr std::string_view kRuntime = "libcudart.so.";
      if (!name.starts_with(kRuntime)) continue;
      const int needed = std::atoi(name.c_str() + kRuntime.size());
      if (needed <= served) continue;
      const std::string cuda = "CUDA " + std::to_string(served);
      report(error_of("cuda", "the program needs CUDA " + std::to_string(needed) + ", the driver serves " + cuda,
                      "update the driver, or use a build for " + cuda));
    }
  });
}

Findings check_gpu_code(const JobFacts& job) {
  return on_each_node(job, [&](std::size_t node, auto report) {
    for (const auto& [file, code] : job.nodes[node].gpu_code) {
      for (const auto& gpu : gpus_of(job.nodes[node])) {
        if (!gpu.capability || code.empty() || runs_on(code, *gpu.capability)) continue;
        const std::string number = std::to_string(*gpu.capability / 10) + "." + std::to_string(*gpu.capability % 10);
        report(error_of(
            "cuda", file + " has no code for the " + gpu.name.value_or("GPU") + " (compute capability " + number + ")",
            "compile it for that too (CMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST=" + number +
                "), or ask for other GPUs"));
        break;
      }
    }
  });
}

Findings check_gpu_models(const JobFacts& job) {
  Findings findings;
  const auto compare = [&](const char* what, const char* remedy, auto fact) {
    append(findings, differences(job, warning_of("gpu-model", what, remedy), fact));
  };
  compare("the GPU model", "ask for GPUs of one kind (--gpus=TYPE:N or --constraint)", models_of);
  if (!findings.empty()) return findings;
  compare("ECC of the GPUs' memory", "nvidia-smi -e 1 (or 0) on all",
          [](const NodeFacts& node) { return greatest(node, &Gpu::ecc); });
  compare("the power limit of the GPUs in watts", "nvidia-smi -pl WATTS on all: the slowest GPU sets the pace",
          [](const NodeFacts& node) { return greatest(node, &Gpu::power_limit_w); });
  compare("the application clock of the GPUs in MHz", "nvidia-smi -rac on all: the slowest GPU sets the pace",
          [](const NodeFacts& node) {
            return least(node, [](const Gpu& gpu) { return gpu.health.application_clock_mhz; });
          });
  return findings;
}

Findings check_gpu_modes(const JobFacts& job) {
  Findings findings = differences(job, error_of("gpu-mode", "MIG mode", "nvidia-smi -mig 0 (or 1) on all nodes"),
                                  [](const NodeFacts& node) { return greatest(node, &Gpu::mig); });
  append(findings,
         differences(
             job, warning_of("gpu-mode", "persistence mode of the GPUs", "start nvidia-persistenced on all nodes"),
             [](const NodeFacts& node) { return least(node, [](const Gpu& gpu) { return gpu.health.persistent; }); }));
  append(findings, on_each_node(job, [&](std::size_t node, auto report) {
           const auto is_exclusive = [](const Gpu& gpu) { return gpu.compute_mode == 3; };  // EXCLUSIVE_PROCESS
           if (node >= job.bindings.size() || std::ranges::none_of(gpus_of(job.nodes[node]), is_exclusive)) return;
           if (std::ranges::none_of(job.bindings[node], &Binding::shares_gpu)) return;
           report(error_of("gpu-mode", "ranks share a GPU that is in exclusive mode",
                           "start fewer ranks, or nvidia-smi -c DEFAULT"));
         }));
  return findings;
}

Findings check_gpu_visibility(const JobFacts& job) {
  return on_each_node(job, [&](std::size_t node, auto report) {
    // If a control group hides GPUs from the driver, NCCL cannot copy directly between the GPUs of the ranks.
    // (CUDA_VISIBLE_DEVICES hides no GPU from the driver.)
    std::set<std::string> openable;
    for (const int rank : job.layout.ranks_of(static_cast<int>(node))) {
      if (job.rank(rank).openable) openable.insert(*job.rank(rank).openable);
    }
    if (openable.size() < 2) return;
    report(warning_of("gpu-visibility",
                      "ranks of the node may open different GPUs, so NCCL can't copy between them directly",
                      "srun --gpu-bind=none, or --gpus-per-node=N instead of --gpus-per-task"));
  });
}

}  // namespace mn::launcher
