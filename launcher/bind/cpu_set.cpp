#include "bind/cpu_set.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mn/core/cpus.hpp>
#include <mn/core/error.hpp>
#include <mn/core/ranks.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

constexpr int kMaxCpus = 1 << 16;

struct FreeSet {
  void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
};
using KernelSet = std::unique_ptr<cpu_set_t, FreeSet>;

std::optional<int> cpu_number(std::string_view text) {
  const auto number = parse_rank(std::string(text));
  return number && *number < kMaxCpus ? number : std::nullopt;
}

constexpr int kPolicyBind = 2;  // MPOL_BIND of linux/mempolicy.h

}  // namespace

std::optional<CpuSet> parse_cpus_strictly(std::string_view list) {
  CpuSet cpus;
  for (const std::string_view item : split(list, ',')) {
    const std::size_t dash = item.find('-');
    const auto first = cpu_number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : cpu_number(item.substr(dash + 1));
    if (!first || !last || *first > *last) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
  }
  return cpus;
}

std::string format_cpus(const CpuSet& cpus) {
  std::string text;
  for (auto it = cpus.begin(); it != cpus.end();) {
    const int first = *it;
    int last = first;
    while (++it != cpus.end() && *it == last + 1) last = *it;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last != first) text += '-' + std::to_string(last);
  }
  return text;
}

CpuSet intersection(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  std::ranges::set_intersection(a, b, std::inserter(both, both.end()));
  return both;
}

CpuSet affinity_of_this_thread() {
  const auto cpus = usable_cpus();
  return {cpus.begin(), cpus.end()};
}

void set_affinity_of_this_thread(const CpuSet& cpus) {
  const std::size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  const KernelSet set(CPU_ALLOC(kMaxCpus));
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  const CpuSet before = affinity_of_this_thread();
  // The mask is read back and compared, because the kernel silently drops unknown CPUs.
  if (sched_setaffinity(0, bytes, set.get()) == 0 && affinity_of_this_thread() == cpus) return;
  throw UsageError("cannot bind to the CPUs " + format_cpus(cpus) + ": this rank was given " + format_cpus(before) +
                   "; give others (--cpu-map), or ask the scheduler for them");
}

std::vector<int> numa_nodes_of(const CpuSet& cpus, const std::filesystem::path& root) {
  constexpr std::string_view kPrefix = "node";
  std::vector<int> nodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root / "sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || name.find_first_of("0123456789") != kPrefix.size()) continue;
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    std::getline(file, list);
    if (!intersection(parse_cpus(list), cpus).empty()) nodes.push_back(std::atoi(name.c_str() + kPrefix.size()));
  }
  std::ranges::sort(nodes);
  return nodes;
}

void bind_memory_of_this_thread(const std::vector<int>& nodes) {
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  if (nodes.empty()) return;  // a kernel without NUMA has near memory only
  const auto most = static_cast<std::size_t>(std::ranges::max(nodes));
  std::vector<unsigned long> mask(most / kBits + 1);
  for (const int node : nodes)
    mask[static_cast<std::size_t>(node) / kBits] |= 1UL << (static_cast<std::size_t>(node) % kBits);
  // The last argument is the number of bits + 1, because the kernel reads one bit less than the argument says.
  if (syscall(SYS_set_mempolicy, kPolicyBind, mask.data(), mask.size() * kBits + 1) == 0) return;
  const int reason = errno;
  const std::string list = join(nodes, ",");
  throw Error(with_errno("--mem-bind local: cannot bind memory to the NUMA nodes " + list, reason) +
              "; leave the option out, or allow set_mempolicy (docker --cap-add SYS_NICE)");
}

}  // namespace mn::launcher
