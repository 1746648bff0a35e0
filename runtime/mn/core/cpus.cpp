#include <cerrno>
#include <memory>

#include <sched.h>

#include <mn/core/cpus.hpp>
#include <mn/core/error.hpp>

namespace mn {

std::vector<int> usable_cpus() {
  constexpr int kMost = 1 << 16;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMost);
  const auto release = [](cpu_set_t* set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(release)> set(CPU_ALLOC(kMost), release);
  CPU_ZERO_S(bytes, set.get());
  if (sched_getaffinity(0, bytes, set.get()) != 0) throw Error(with_errno("cannot read the CPU mask", errno));
  std::vector<int> cpus;
  for (int cpu = 0; cpu < kMost; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace mn
