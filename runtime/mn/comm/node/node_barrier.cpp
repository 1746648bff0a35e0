#include <mn/comm/node/node_barrier.hpp>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/progress.hpp>
#include <mn/core/cpus.hpp>
#include <mn/core/tree.hpp>

namespace mn {
namespace {

using Clock = std::chrono::steady_clock;

/// Three levels hold 73 ranks. If ranks share CPUs, each level costs a round of the scheduler.
constexpr Tree kTree{8};
constexpr int kSpins = 300;
/// On a busy machine another rank may need this CPU, and a yield is quicker than a sleep.
constexpr int kYields = 200;
/// In a training step, ranks are usually less late than this. A sleeping CPU wakes slowly.
constexpr std::chrono::milliseconds kPatience{20};

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::uint32_t* word_of(std::atomic<std::uint32_t>& value) { return reinterpret_cast<std::uint32_t*>(&value); }

/// Sleeps until `value` differs from `seen`. If mn has a message under way or the call has a time-out, sleeps at most
/// 50 µs, else 20 ms (the program may have MPI requests). std::atomic::wait works within one process only.
void sleep_while(std::atomic<std::uint32_t>& value, std::uint32_t seen) {
  constexpr long kBetweenLooks_ns = 50'000;
  constexpr long kWithoutRequests_ns = 20'000'000;
  const bool looks = PendingRequest::any() || timed_call() != nullptr;
  const timespec most{0, looks ? kBetweenLooks_ns : kWithoutRequests_ns};
  syscall(SYS_futex, word_of(value), FUTEX_WAIT, seen, &most, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& value) {
  syscall(SYS_futex, word_of(value), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

bool has_cpu_for_each_rank(MPI_Comm node) {
  const int ranks = size_of(node);
  const std::vector<int> own = usable_cpus();
  int last = own.back();
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &last, 1, MPI_INT, MPI_MAX, node), "counting the CPUs of the node's ranks");
  std::vector<unsigned char> usable(static_cast<std::size_t>(last) + 1, 0);
  for (const int cpu : own) usable[static_cast<std::size_t>(cpu)] = 1;
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, usable.data(), last + 1, MPI_UNSIGNED_CHAR, MPI_MAX, node),
            "counting the CPUs of the node's ranks");
  double quota = cpu_quota();
  mpi_check(MPI_Allreduce(MPI_IN_PLACE, &quota, 1, MPI_DOUBLE, MPI_MIN, node), "comparing the quotas of CPU time");
  return std::min(static_cast<double>(std::ranges::count(usable, 1)), quota) >= ranks;
}

NodeBarrier::NodeBarrier(const std::vector<SharedCounter*>& arrivals, int rank, bool may_spin)
    : own_(arrivals[static_cast<std::size_t>(rank)]), all_(arrivals), may_spin_(may_spin) {
  if (arrivals.size() <= kMaxDirect) return;
  const auto ranks = static_cast<int>(arrivals.size());
  for (const int child : kTree.children_of(rank, ranks)) below_.push_back(arrivals[static_cast<std::size_t>(child)]);
  all_.resize(1);
}

void SharedCounter::set(std::uint32_t now) {
  assert(static_cast<std::int32_t>(now - value.load(std::memory_order_relaxed)) >= 0);  // invariant 1: never falls
  value.store(now);  // invariants 2 and 3: before it reads `sleepers`
  if (sleepers.load() > 0) wake_all(value);
}

void SharedCounter::wait_for(std::uint32_t least, bool may_spin) {
  const auto reached = [&](std::uint32_t now) { return static_cast<std::int32_t>(now - least) >= 0; };
  for (int i = 0; may_spin && i < kSpins; ++i) {
    if (reached(value.load(std::memory_order_acquire))) return;
    pause_briefly();
  }
  const auto end = Clock::now() + (may_spin ? kPatience : std::chrono::milliseconds(0));
  for (int i = 0; i < kYields || Clock::now() < end; ++i) {
    if (reached(value.load(std::memory_order_acquire))) return;
    progress_pending_requests();
    check_timeout();
    sched_yield();
  }
  while (!reached(value.load(std::memory_order_acquire))) {
    progress_mpi();
    check_timeout();
    sleepers.fetch_add(1);  // invariant 3: before it reads the value again
    const std::uint32_t seen = value.load();
    if (!reached(seen)) sleep_while(value, seen);
    sleepers.fetch_sub(1);
  }
}

}  // namespace mn
