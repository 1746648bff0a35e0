#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mn/comm/node_barrier.hpp>

namespace mn {
namespace {

constexpr int kSpins = 300;
/// On a busy machine the rank that is missing may wait for this very CPU: giving way is quicker than sleeping.
constexpr int kYields = 200;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::uint32_t* word_of(std::atomic<std::uint32_t>& value) { return reinterpret_cast<std::uint32_t*>(&value); }

/// Sleeps while `value` is `seen`, a second at most. std::atomic::wait works within one process only.
void sleep_while(std::atomic<std::uint32_t>& value, std::uint32_t seen) {
  const timespec most{1, 0};
  syscall(SYS_futex, word_of(value), FUTEX_WAIT, seen, &most, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& value) {
  syscall(SYS_futex, word_of(value), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

NodeBarrier::NodeBarrier(std::vector<BarrierLine*> lines, int rank)
    : lines_(std::move(lines)),
      rank_(rank),
      spins_(sysconf(_SC_NPROCESSORS_ONLN) >= static_cast<long>(lines_.size()) ? kSpins : 0) {}

void NodeBarrier::arrive_and_wait() {
  BarrierLine& own = *lines_[static_cast<std::size_t>(rank_)];
  ++epoch_;
  own.epoch.store(epoch_);  // sequentially consistent, with `sleepers`: either sees the other
  if (own.sleepers.load() > 0) wake_all(own.epoch);
  for (BarrierLine* line : lines_) {
    if (line != &own) wait_for(*line);
  }
}

void NodeBarrier::wait_for(BarrierLine& line) const {
  const auto reached = [&] {
    return static_cast<std::int32_t>(line.epoch.load(std::memory_order_acquire) - epoch_) >= 0;
  };
  for (int i = 0; i < spins_; ++i) {
    if (reached()) return;
    pause_briefly();
  }
  for (int i = 0; i < kYields; ++i) {
    if (reached()) return;
    sched_yield();
  }
  while (!reached()) {
    line.sleepers.fetch_add(1);
    const std::uint32_t seen = line.epoch.load();
    if (static_cast<std::int32_t>(seen - epoch_) < 0) sleep_while(line.epoch, seen);
    line.sleepers.fetch_sub(1);
  }
}

}  // namespace mn
