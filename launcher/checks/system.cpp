#include <algorithm>
#include <cmath>
#include <map>

#include "checks/checks.hpp"

namespace mn::launcher {
namespace {

template <typename Value>
Value at(const Facts& node, const char* pointer, Value fallback) {
  return node.value(Facts::json_pointer(pointer), fallback);
}

constexpr std::int64_t kUnlimited = -1;
constexpr std::uint64_t kShmForEachRankMib = 64;  // what MPI's and NCCL's shared-memory transports take

}  // namespace

Findings check_memlock(const JobFacts& job) {
  return where(job,
               {"memlock",
                true,
                {},
                "locked memory is limited, but there is an InfiniBand or RoCE device",
                "set LimitMEMLOCK=infinity in slurmd.service (and limits.conf for ssh)"},
               [](const Facts& node) {
                 return !at(node, "/system/fabric", Facts::array()).empty() &&
                        at(node, "/system/limits/memlock", kUnlimited) != kUnlimited;
               });
}

Findings check_shm(const JobFacts& job) {
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    const auto free = at(job.nodes[node], "/system/shm/free_mib", std::uint64_t{0});
    const auto ranks = job.layout.ranks_of(static_cast<int>(node)).size();
    if (free >= kShmForEachRankMib * ranks) continue;
    findings.push_back({"shm",
                        free < kShmForEachRankMib,
                        {job.host(node)},
                        "/dev/shm has " + std::to_string(free) + " MiB free for " + std::to_string(ranks) + " ranks",
                        "remove stale files there (rm /dev/shm/nccl-*), or enlarge it (docker --shm-size=1g)"});
  }
  return findings;
}

Findings check_limits(const JobFacts& job) {
  Findings findings;
  for (const char* name : {"nofile", "stack", "nproc", "core", "memlock"}) {
    append(findings, differing(job, "limits", false, std::string("/system/limits/") + name,
                               std::string("the limit ") + name + " (-1: none)",
                               "make limits.conf and slurmd's limits the same on all nodes"));
  }
  return findings;
}

Findings check_cma(const JobFacts& job) {
  return where(
      job,
      {"cma",
       false,
       {},
       "the kernel forbids copies between processes (kernel.yama.ptrace_scope > 1)",
       "sysctl kernel.yama.ptrace_scope=1, or set MV2_SMP_USE_CMA=0 and OMPI_MCA_btl_vader_single_copy_mechanism=none"},
      [](const Facts& node) {
        const std::string scope = at(node, "/system/ptrace_scope", std::string());
        const bool off = at(node, "/environment/MV2_SMP_USE_CMA", std::string()) == "0" ||
                         at(node, "/environment/OMPI_MCA_btl_vader_single_copy_mechanism", std::string()) == "none";
        return !scope.empty() && scope > "1" && !off;
      });
}

Findings check_cpu(const JobFacts& job) {
  constexpr const char* kWhat[][2] = {{"model", "the processor"},
                                      {"count", "the number of CPUs"},
                                      {"governor", "the CPU frequency governor"},
                                      {"huge_pages", "the setting of transparent huge pages"},
                                      {"kernel", "the kernel"},
                                      {"libc", "the C library"}};
  Findings findings;
  for (const auto& [key, what] : kWhat) {
    append(findings, differing(job, "cpu", false, std::string("/system/cpu/") + key, what,
                               "ask for nodes of one kind (sbatch --constraint)"));
  }
  append(findings, differing(job, "cpu", false, "/machine/numa_nodes", "the number of NUMA nodes",
                             "set the same NUMA mode in the firmware of all nodes"));
  return findings;
}

Findings check_clock(const JobFacts& job) {
  constexpr double kSeconds = 1;
  constexpr double kFatalSeconds = 30;
  // Against the median, so that one wrong clock is the odd one, also if it is rank 0's; of two, rank 0's is taken as
  // right.
  std::vector<double> times;
  for (const auto& node : job.nodes) times.push_back(node.value("time", 0.0));
  if (times.size() < 2) return {};
  auto sorted = times;
  std::ranges::sort(sorted);
  const double usual = times.size() == 2 ? times[0] : sorted[sorted.size() / 2];
  Findings findings;
  for (std::size_t node = 0; node < times.size(); ++node) {
    const double offset = times[node] - usual;
    if (std::abs(offset) <= kSeconds) continue;
    findings.push_back({"clock",
                        std::abs(offset) > kFatalSeconds,
                        {job.host(node)},
                        "the clock is " + std::to_string(std::lround(std::abs(offset))) + " s " +
                            (offset > 0 ? "ahead of" : "behind") + " the others",
                        "start chronyd or ntpd there; make sees files from the future until then"});
  }
  return findings;
}

Findings check_machines(const JobFacts& job) {
  std::map<std::string, std::vector<std::string>> hosts_of;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    hosts_of[at(job.nodes[node], "/system/boot_id", std::string())].push_back(job.host(node));
  }
  Findings findings;
  for (const auto& [boot_id, hosts] : hosts_of) {
    if (boot_id.empty() || hosts.size() < 2) continue;
    findings.push_back({"machines", false, hosts, "these nodes are one and the same machine (one boot id)",
                        "start one container for each machine: its ranks would share cores and GPUs unknowingly"});
  }
  return findings;
}

Findings check_user(const JobFacts& job) {
  const std::string remedy = "give the user the same ids on all nodes (LDAP, SSSD)";
  Findings findings = differing(job, "user", true, "/system/user/uid", "the user id", remedy);
  append(findings, differing(job, "user", true, "/system/user/gid", "the group id", remedy));
  append(findings, differing(job, "user", false, "/system/user/umask", "the umask", "set it in the job script"));
  return findings;
}

Findings check_temporary_folder(const JobFacts& job) {
  return where(job,
               {"tmp",
                false,
                {},
                "the folder for temporary files (TMPDIR, /tmp) is full or can't be written",
                "clean it, or point TMPDIR at node-local storage"},
               [](const Facts& node) {
                 return !at(node, "/system/tmp/writable", true) ||
                        at(node, "/system/tmp/free_mib", std::uint64_t{1}) == 0;
               });
}

Findings check_output_folder(const JobFacts& job) {
  // Rank 0 writes results and checkpoints, by default below the current folder; all ranks read them back.
  const auto folder = at(job.nodes.at(0), "/system/output/path", std::string());
  Findings findings = where(job,
                            {"output",
                             false,
                             {},
                             "the folder of results, " + folder + ", is not the one that rank 0 sees",
                             "give the job an output folder on a shared file system (--out, or the current folder)"},
                            [](const Facts& node) { return !at(node, "/system/output/shared", true); });
  if (!at(job.nodes[0], "/system/output/writable", true) ||
      at(job.nodes[0], "/system/output/free_mib", std::uint64_t{1}) == 0) {
    findings.push_back({"output",
                        false,
                        {job.host(0)},
                        "the folder of results, " + folder + ", is full or can't be written by rank 0",
                        "give the job another one (--out), or start elsewhere"});
  }
  return findings;
}

}  // namespace mn::launcher
