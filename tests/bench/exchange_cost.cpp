// exchange_cost [RANKS NODES]…: what the exchange of mnlaunch costs a job, from the start of all its ranks to the
// moment at which they would become the program, without looking at the machine. Ranks are threads of several processes
// that meet over loopback and share this machine's CPUs. Rank 0, the leader of node 1 and a rank below that one have
// processes of their own, whose time is measured. On a cluster, where each rank has a CPU, the longest path from a rank
// to the root and back is through two leaders: "path" is the CPU time of these four ranks, one after the other.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/launcher/simulated_job.hpp"

namespace {

using namespace mn::launcher;
using simulated::Clock;

constexpr int kCores = 128;
constexpr int kGpus = 8;
constexpr int kRanksOfAProcess = 1024;

/// A node with 128 cores of two threads and eight GPUs, and 12 KiB of variables.
NodeFacts large_node(int node) {
  NodeFacts facts = healthy_node(node);
  facts.machine = {};
  for (int core = 0; core < kCores; ++core) facts.machine.cores.push_back({{core, core + kCores}, core / (kCores / 2)});
  facts.driver->gpus.clear();
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    facts.driver->gpus.push_back(healthy_gpu(gpu));
    CpuSet near;
    for (int core = 0; core < kCores / 2; ++core) near.insert(core + gpu / (kGpus / 2) * (kCores / 2));
    facts.machine.gpus.push_back({healthy_gpu(gpu).bus_id, near, ""});
  }
  facts.machine.numa_nodes = 2;
  for (int i = 0; i < 120; ++i) (*facts.environment)["NCCL_OPTION_" + std::to_string(i)] = std::string(80, 'v');
  return facts;
}

RankFacts rank_of_large_node(int) {
  RankFacts facts = healthy_job().ranks[0];
  facts.size.reset();
  facts.resources = {};
  for (int cpu = 0; cpu < 2 * kCores; ++cpu) facts.resources.mask.insert(cpu);
  for (int gpu = 0; gpu < kGpus; ++gpu)
    facts.resources.gpus.push_back({"GPU-" + std::to_string(gpu), healthy_gpu(gpu).bus_id});
  return facts;
}

struct Shared {
  std::atomic<int> ready = 0;
  int start = -1;  ///< a pipe that is closed when all ranks are to start
  std::atomic<int> failed = 0;
  std::atomic<std::int64_t> last_ns = 0;
  long rank_zero_kib = 0;
};

long status_kib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::strtol(line.c_str() + field.size(), nullptr, 10);
  }
  return 0;
}

/// Ranks [first, last) in this process.
void run_ranks(const simulated::Job& job, int first, int last, Shared& shared) {
  const long before = status_kib("VmRSS:");
  const auto endings = simulated::run(first, last, [&](int rank) {
    ++shared.ready;
    char none;
    while (read(shared.start, &none, 1) > 0) continue;
    return simulated::end_of(job, rank);
  });
  for (const auto& ending : endings) {
    const auto at = ending.at.time_since_epoch().count();
    for (auto seen = shared.last_ns.load(); seen < at && !shared.last_ns.compare_exchange_weak(seen, at);) continue;
    if (ending.exit_code == 0) continue;
    ++shared.failed;
    std::fputs(ending.text.c_str(), stderr);
  }
  if (first == 0) shared.rank_zero_kib = status_kib("VmHWM:") - before;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}
double cpu_seconds(const rusage& usage) { return seconds(usage.ru_utime) + seconds(usage.ru_stime); }

/// Where the ranks of each process begin: rank 0; the first two ranks of node 1; as many as a process may have.
std::vector<int> first_ranks(int ranks, int nodes) {
  const int leader = nodes > 1 ? ranks / nodes : 1;
  std::vector<int> first = {0, 1, leader, leader + 1, leader + 2};
  while (first.back() < ranks) first.push_back(first.back() + kRanksOfAProcess);
  std::erase_if(first, [&](int rank) { return rank >= ranks; });
  first.erase(std::unique(first.begin(), first.end()), first.end());
  first.push_back(ranks);
  return first;
}

void measure(int ranks, int nodes) {
  auto* shared = new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
  simulated::Job job;
  job.name = "exchange_cost " + std::to_string(getpid()) + " " + std::to_string(ranks);
  job.nodes = simulated::in_blocks(std::vector<int>(static_cast<std::size_t>(nodes), ranks / nodes));
  job.patience = simulated::milliseconds(60000);
  job.node_facts = large_node;
  job.rank_facts = rank_of_large_node;
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  shared->start = ends[0];
  const std::vector<int> first = first_ranks(ranks, nodes);
  std::map<pid_t, int> processes;
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    const pid_t process = fork();
    if (process == 0) {
      close(ends[1]);
      run_ranks(job, first[i], first[i + 1], *shared);
      _exit(0);
    }
    processes[process] = first[i];
  }
  while (shared->ready < ranks) usleep(1000);
  const auto start = Clock::now();
  close(ends[1]);
  std::map<int, double> cpu_of;  // by the first rank of the process
  double cpu = 0;
  rusage usage{};
  for (pid_t ended = 0; (ended = wait4(-1, nullptr, 0, &usage)) > 0;) {
    cpu_of[processes[ended]] = cpu_seconds(usage);
    cpu += cpu_seconds(usage);
  }
  close(ends[0]);
  const int leader = nodes > 1 ? ranks / nodes : 1;
  const double path = nodes > 1 ? cpu_of[0] + 2 * cpu_of[leader] + cpu_of[leader + 1] : cpu_of[0] + cpu_of[1];
  const double wall = static_cast<double>(shared->last_ns - start.time_since_epoch().count()) / 1e9;
  std::printf("%6d %6d %10.3f %10.3f %12.2f %10.1f %10.1f %10.1f %10.1f %8s\n", ranks, nodes, wall, cpu,
              1e3 * cpu / ranks, 1e3 * cpu_of[0], 1e3 * cpu_of[leader], 1e3 * path,
              static_cast<double>(shared->rank_zero_kib) / 1024, shared->failed == 0 ? "" : "FAILED");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::printf("%6s %6s %10s %10s %12s %10s %10s %10s %10s\n", "ranks", "nodes", "wall s", "CPU s", "CPU ms/rank",
              "rank 0 ms", "leader ms", "path ms", "rank 0 MiB");
  std::vector<std::pair<int, int>> jobs = {{2, 1}, {8, 1}, {16, 2}, {64, 8}, {256, 32}, {1024, 128}, {4096, 512}};
  if (argc > 2) jobs.clear();
  for (int i = 1; i + 1 < argc; i += 2) jobs.emplace_back(std::atoi(argv[i]), std::atoi(argv[i + 1]));
  for (const auto& [ranks, nodes] : jobs) measure(ranks, nodes);
}
