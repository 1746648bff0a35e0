#include "bind/cpu_set.hpp"

#include <algorithm>
#include <iterator>
#include <memory>

#include <sched.h>

#include <mn/core/cpus.hpp>
#include <mn/core/error.hpp>
#include <mn/core/host_list.hpp>
#include <mn/core/launcher_variables.hpp>
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

std::string format_cpus(const CpuSet& cpus) { return number_ranges({cpus.begin(), cpus.end()}); }

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
  // The kernel drops unknown CPUs without an error, so the mask is read back.
  if (sched_setaffinity(0, bytes, set.get()) == 0 && affinity_of_this_thread() == cpus) return;
  throw UsageError("cannot bind to the CPUs " + format_cpus(cpus) + ": this rank was given " + format_cpus(before) +
                   "; give others (--cpu-map), or ask the scheduler for them");
}

}  // namespace mn::launcher
