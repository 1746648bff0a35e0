#include <mn/loader/loader_defaults.hpp>

#include <algorithm>
#include <cstddef>

#include <mn/core/cpus.hpp>
#include <mn/core/memory.hpp>

namespace mn {

// One core is the training thread's.
int default_workers() {
  constexpr std::size_t kMaxWorkers = 16;
  return static_cast<int>(std::clamp<std::size_t>(cpu_count() - 1, 1, kMaxWorkers));
}

// Two for each worker: one in work, and one ready in case a slow batch holds up the others.
int default_prefetch(int workers) { return std::max(2 * workers, kReadAhead + 1); }

std::int64_t default_prefetch_bytes() { return std::min(std::int64_t{1} << 30, memory_of_rank() / 3); }

}  // namespace mn
