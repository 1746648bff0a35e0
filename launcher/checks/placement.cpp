#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <mn/core/text.hpp>

#include "checks/checks.hpp"
#include "checks/comparison.hpp"

namespace mn::launcher {
namespace {

const CpuSet& mask_of(const JobFacts& job, int rank) { return job.rank(rank).resources.mask; }

CpuSet whole(const Machine& machine) {
  CpuSet all;
  for (const auto& core : machine.cores) all.insert(core.cpus.begin(), core.cpus.end());
  return all;
}

bool is_far_from_its_gpu(const RankFacts& rank, const Machine& machine, const Binding& binding) {
  if (binding.gpu < 0) return false;
  const std::string& bus_id = rank.resources.gpus.at(static_cast<std::size_t>(binding.gpu)).bus_id;
  const auto slot = std::ranges::find(machine.gpus, bus_id, &GpuSlot::bus_id);
  return slot != machine.gpus.end() && !slot->near.empty() && intersection(slot->near, binding.cpus).empty();
}

/// Whether the rank and another rank are bound to the same single CPU, although the machine has more CPUs.
bool is_crowded(const JobFacts& job, int rank) {
  const int node = job.layout.node_of(rank);
  const CpuSet& mask = mask_of(job, rank);
  if (mask.size() != 1 || mask == whole(job.nodes[static_cast<std::size_t>(node)].machine)) return false;
  const auto ranks = job.layout.ranks_of(node);
  return std::ranges::count_if(ranks, [&](int other) { return mask_of(job, other) == mask; }) > 1;
}

}  // namespace

Findings check_sources(const JobFacts& job) {
  Findings findings;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    for (const auto& conflict : job.ranks[rank].conflicts) {
      add(findings,
          error_of("sources", "rank " + std::to_string(job.number(static_cast<int>(rank))) + ": " + conflict,
                   "unset the variable, or start mnlaunch directly under the launcher (srun --mpi=pmix mnlaunch ...)")
              .on(job.layout.host_of(static_cast<int>(rank))));
    }
  }
  return findings;
}

Findings check_task_count(const JobFacts& job) {
  const int first = job.is_part() ? job.rank(0).size.value_or(0) : job.layout.size();
  for (int rank = 0; rank < job.layout.size(); ++rank) {
    const int size = job.rank(rank).size.value_or(first);
    if (size == first) continue;
    // Reports only the first difference; further ranks would tell nothing new.
    return {error_of("tasks",
                     "rank " + std::to_string(job.number(rank)) + " counts " + std::to_string(size) + " ranks, rank " +
                         std::to_string(job.number(0)) + " " + std::to_string(first),
                     "start all ranks with one command")
                .on(job.layout.host_of(rank))};
  }
  return {};
}

Findings check_distribution(const JobFacts& job) {
  std::vector<std::size_t> counts(job.layout.hosts.size(), 0);
  for (const int node : job.layout.nodes) ++counts[static_cast<std::size_t>(node)];
  const auto [least, most] = std::ranges::minmax(counts);
  if (least == most) return {};
  constexpr std::size_t kMaxNamed = 8;
  std::vector<std::string> table;
  for (std::size_t node = 0; node < std::min(counts.size(), kMaxNamed); ++node) {
    table.push_back(job.host(node) + " " + std::to_string(counts[node]));
  }
  if (counts.size() > kMaxNamed) table.emplace_back("...");
  return {warning_of("distribution", "nodes have unequal numbers of ranks: " + join(table),
                     "ask for --ntasks-per-node=N (mpiexec: -map-by ppr:N:node), unless this is meant")};
}

Findings check_arguments(const JobFacts& job) {
  Findings findings;
  for (int rank = 0; rank < job.layout.size(); ++rank) {
    const auto& first = job.rank(0).arguments;
    const auto& own = job.rank(rank).arguments;
    if (!first || !own || *own == *first) continue;
    add(findings, warning_of("arguments", "the command line differs from rank 0's", "start all ranks with one command")
                      .on(job.layout.host_of(rank)));
  }
  return findings;
}

Findings check_folder(const JobFacts& job) {
  return differences(job,
                     warning_of("folder", "the current folder",
                                "start from a folder that all nodes share, or give --chdir (srun) or -wdir (mpiexec)"),
                     [](const NodeFacts& node) { return node.system.folder.path; });
}

Findings check_room(const JobFacts& job) {
  Findings findings;
  for (int rank = 0; rank < job.layout.size(); ++rank) {
    const auto node = static_cast<std::size_t>(job.layout.node_of(rank));
    const auto& cpus = mask_of(job, rank);
    const int threads = job.rank(rank).threads.value_or(0);
    if (static_cast<int>(cpus.size()) >= threads || cpus == whole(job.nodes[node].machine)) continue;
    if (is_crowded(job, rank)) continue;  // check_affinity reports it as an error
    const std::string what = "ranks may use " + std::to_string(cpus.size()) + " CPUs, but are to run " +
                             std::to_string(threads) + " threads";
    add(findings,
        warning_of("affinity", what,
                   "srun -c N or SRUN_CPUS_PER_TASK=N (srun does not take N from sbatch), mpiexec --bind-to none")
            .on(job.host(node)));
  }
  return findings;
}

Findings check_cpu_map(const JobFacts& job, std::size_t entries) {
  return on_each_node(job, [&](std::size_t node, auto report) {
    const std::size_t ranks = job.layout.ranks_of(static_cast<int>(node)).size();
    if (entries == 0 || ranks <= entries) return;
    report(
        error_of("affinity",
                 "--cpu-map has " + std::to_string(entries) + " lists of CPUs for " + std::to_string(ranks) + " ranks",
                 "give a list for each rank of a node, with colons between them"));
  });
}

Findings check_cpu_time(const JobFacts& job) {
  return on_each_node(job, [&](std::size_t node, auto report) {
    const auto quota = job.nodes[node].system.cpu.quota;
    int threads = 0;
    for (const int rank : job.layout.ranks_of(static_cast<int>(node))) threads += job.rank(rank).threads.value_or(0);
    if (!quota || threads <= std::ceil(*quota)) return;
    char allowed[32];
    std::snprintf(allowed, sizeof allowed, "%.3g", *quota);
    report(warning_of("affinity",
                      std::string("a control group allows the time of ") + allowed + " CPUs, but ranks are to run " +
                          std::to_string(threads) + " threads there",
                      "raise the container's limit (docker --cpus, limits.cpu), or lower OMP_NUM_THREADS"));
  });
}

Findings check_gpu_affinity(const JobFacts& job) {
  return on_each_node(job, [&](std::size_t node, auto report) {
    const auto ranks = job.layout.ranks_of(static_cast<int>(node));
    const auto bindings = node < job.bindings.size() ? std::span(job.bindings[node]) : std::span<const Binding>();
    for (std::size_t i = 0; i < std::min(ranks.size(), bindings.size()); ++i) {
      if (!is_far_from_its_gpu(job.rank(ranks[i]), job.nodes[node].machine, bindings[i])) continue;
      return report(
          warning_of("affinity", "ranks run on CPUs far from their GPUs (another NUMA node)",
                     "srun --gpu-bind=closest or --cpu-bind=none, mpiexec --bind-to none: mnlaunch then binds them"));
    }
  });
}

Findings check_affinity(const JobFacts& job) {
  return on_each_node(job, [&](std::size_t node, auto report) {
    const auto ranks = job.layout.ranks_of(static_cast<int>(node));
    if (std::ranges::none_of(ranks, [&](int rank) { return is_crowded(job, rank); })) return;
    report(error_of("affinity", "several ranks are bound to one and the same CPU",
                    "ask for cores: srun -c N --cpu-bind=cores (or SRUN_CPUS_PER_TASK), mpiexec --bind-to none"));
  });
}

}  // namespace mn::launcher
