#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "checks/checks.hpp"
#include "checks/comparison.hpp"

namespace mn::launcher {
namespace {

// Largest shared memory of MPI for a rank (Open MPI: 4 MiB), and of NCCL for a rank with a GPU.
constexpr std::uint64_t kShmOfMpiRankMib = 8;
constexpr std::uint64_t kShmOfNcclRankMib = 56;

bool is_full(const FolderFacts& folder) { return folder.writable == false || folder.free_mib == std::uint64_t{0}; }

bool has_value(const NodeFacts& node, const char* variable, const char* value) {
  if (!node.environment) return false;
  const auto found = node.environment->find(variable);
  return found != node.environment->end() && found->second == value;
}

bool lacks_locked_memory(const NodeFacts& node) {
  const auto& memlock = node.system.limits.memlock;
  const bool has_fabric = std::ranges::any_of(node.system.ports, is_fabric_port, &PortFacts::name);
  return has_fabric && memlock && *memlock != LimitFacts::kUnlimited;
}

std::optional<std::string> octal(std::optional<std::int64_t> mask) {
  if (!mask) return std::nullopt;
  char text[24];
  std::snprintf(text, sizeof text, "%03lo", static_cast<unsigned long>(*mask));
  return text;
}

}  // namespace

Findings check_memlock(const JobFacts& job) {
  return affected(job,
                  error_of("memlock", "locked memory is limited, but there is an InfiniBand or RoCE device",
                           "set LimitMEMLOCK=infinity in slurmd.service (and limits.conf for ssh)"),
                  lacks_locked_memory);
}

Findings check_shm(const JobFacts& job) {
  return on_each_node(job, [&](std::size_t node, auto report) {
    const auto& free = job.nodes[node].system.shm.free_mib;
    const auto ranks = job.layout.ranks_of(static_cast<int>(node)).size();
    const auto with_gpu = std::min(ranks, job.nodes[node].machine.gpus.size());
    const std::uint64_t needed = kShmOfMpiRankMib * ranks + kShmOfNcclRankMib * with_gpu;
    if (!free || *free >= needed) return;
    const auto found = *free * ranks < needed ? error_of : warning_of;  // too little even for one rank
    report(found("shm",
                 "/dev/shm has " + std::to_string(*free) + " MiB free for " + std::to_string(ranks) +
                     " ranks, which take up to " + std::to_string(needed) + " MiB",
                 "remove stale files there (rm /dev/shm/nccl-*), or enlarge it (docker --shm-size=1g)", ""));
  });
}

Findings check_limits(const JobFacts& job) {
  constexpr std::pair<const char*, std::optional<std::int64_t> LimitFacts::*> kLimits[] = {
      {"nofile", &LimitFacts::nofile}, {"stack", &LimitFacts::stack},     {"nproc", &LimitFacts::nproc},
      {"core", &LimitFacts::core},     {"memlock", &LimitFacts::memlock},
  };
  Findings findings;
  for (const auto& [name, limit] : kLimits) {
    const auto fact = [&, limit = limit](const NodeFacts& node) -> std::optional<std::int64_t> {
      const bool is_known = job.runs("memlock") && lacks_locked_memory(node);  // check_memlock reports it as an error
      if (limit == &LimitFacts::memlock && is_known) return std::nullopt;
      return node.system.limits.*limit;
    };
    append(findings, differences(job,
                                 warning_of("limits", std::string("the limit ") + name + " (-1: none)",
                                            "make limits.conf and slurmd's limits the same on all nodes"),
                                 fact));
  }
  return findings;
}

Findings check_cma(const JobFacts& job) {
  return affected(job,
                  warning_of("cma", "the kernel forbids copies between processes (kernel.yama.ptrace_scope > 1)",
                             "sysctl kernel.yama.ptrace_scope=1, or set MV2_SMP_USE_CMA=0 and "
                             "OMPI_MCA_btl_vader_single_copy_mechanism=none"),
                  [](const NodeFacts& node) {
                    const bool off = has_value(node, "MV2_SMP_USE_CMA", "0") ||
                                     has_value(node, "OMPI_MCA_btl_vader_single_copy_mechanism", "none");
                    return node.system.ptrace_scope.value_or("") > "1" && !off;
                  });
}

Findings check_cpu(const JobFacts& job) {
  constexpr const char* kRemedy = "ask for nodes of one kind (sbatch --constraint)";
  constexpr std::pair<const char*, std::optional<std::string> CpuFacts::*> kTexts[] = {
      {"the processor", &CpuFacts::model},
      {"the CPU frequency governor", &CpuFacts::governor},
      {"the setting of transparent huge pages", &CpuFacts::huge_pages},
      {"the kernel", &CpuFacts::kernel},
      {"the C library", &CpuFacts::libc},
  };
  Findings findings;
  const auto compare = [&](const char* what, const char* remedy, auto fact, NoValue no_value) {
    append(findings, differences(job, warning_of("cpu", what, remedy), fact, no_value, Among::kEachKind));
  };
  compare(
      "the number of CPUs", kRemedy, [](const NodeFacts& node) { return node.system.cpu.count; }, NoValue::kSkip);
  for (const auto& [what, text] : kTexts) {
    compare(
        what, kRemedy, [fact = text](const NodeFacts& node) { return node.system.cpu.*fact; }, NoValue::kReport);
  }
  compare(
      "the number of NUMA nodes", "set the same NUMA mode in the firmware of all nodes",
      [](const NodeFacts& node) { return node.machine.numa_nodes; }, NoValue::kSkip);
  return findings;
}

Findings check_clock(const JobFacts& job) {
  constexpr double kSeconds = 1;
  constexpr double kFatalSeconds = 30;
  std::vector<double> times;
  for (const auto& node : job.nodes) {
    if (node.time) times.push_back(*node.time);
  }
  if (times.size() < 2) return {};
  // The median finds a single wrong clock even on rank 0's node. Of two clocks, the first counts as right.
  const double first = times.front();
  std::ranges::sort(times);
  const double usual = times.size() == 2 ? first : times[times.size() / 2];
  return on_each_node(job, [&](std::size_t node, auto report) {
    const double offset = job.nodes[node].time.value_or(usual) - usual;
    if (std::abs(offset) <= kSeconds) return;
    const auto found = std::abs(offset) > kFatalSeconds ? error_of : warning_of;
    report(found("clock",
                 "the clock is " + std::to_string(std::lround(std::abs(offset))) + " s " +
                     (offset > 0 ? "ahead of" : "behind") + " the others",
                 "start chronyd or ntpd there; make sees files from the future until then", ""));
  });
}

Findings check_machines(const JobFacts& job) {
  std::map<std::string, std::vector<std::string>> hosts_of;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    if (const auto& boot_id = job.nodes[node].system.boot_id) hosts_of[*boot_id].push_back(job.host(node));
  }
  Findings findings;
  for (const auto& [boot_id, hosts] : hosts_of) {
    if (hosts.size() < 2) continue;
    findings.push_back(
        warning_of("machines", "these nodes are one and the same machine (one boot id)",
                   "start one container for each machine: its ranks would share cores and GPUs unknowingly"));
    findings.back().hosts = hosts;
  }
  return findings;
}

Findings check_user(const JobFacts& job) {
  constexpr const char* kRemedy = "give the user the same ids on all nodes (LDAP, SSSD)";
  Findings findings = differences(job, error_of("user", "the user id", kRemedy),
                                  [](const NodeFacts& node) { return node.system.user.uid; });
  append(findings, differences(job, error_of("user", "the group id", kRemedy),
                               [](const NodeFacts& node) { return node.system.user.gid; }));
  append(findings, differences(job, warning_of("user", "the umask", "set it in the job script"),
                               [](const NodeFacts& node) { return octal(node.system.user.umask); }));
  return findings;
}

Findings check_temporary_folder(const JobFacts& job) {
  return affected(job,
                  warning_of("tmp", "the folder for temporary files (TMPDIR, /tmp) is full or can't be written",
                             "clean it, or point TMPDIR at node-local storage"),
                  [](const NodeFacts& node) { return is_full(node.system.tmp); });
}

Findings check_output_folder(const JobFacts& job) {
  // Rank 0 writes results and checkpoints to the folder, and all ranks read the checkpoints.
  const std::string folder = job.nodes.at(0).system.output.path.value_or("");
  Findings findings =
      affected(job,
               warning_of("output", "the folder of results, " + folder + ", is not the one that rank 0 sees",
                          "give the job an output folder on a shared file system (--out, or the current folder)"),
               [](const NodeFacts& node) { return node.system.output.shared == false; });
  if (is_full(job.nodes[0].system.output)) {
    add(findings, warning_of("output", "the folder of results, " + folder + ", is full or can't be written by rank 0",
                             "give the job another one (--out), or start elsewhere")
                      .on(job.host(0)));
  }
  return findings;
}

}  // namespace mn::launcher
