/// A number in memory that processes share, which one of them raises and the others wait for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mn {

/// Zeroed before use. Values may wrap: they are compared by the sign of their difference. Waits spin for some
/// microseconds and then give way to whoever waits for the CPU, for 20 ms, or little where the node has more ranks than
/// CPUs. Then they sleep in the kernel: long waits cost the ranks that compute nothing.
struct alignas(64) SharedCounter {
  std::atomic<std::uint32_t> value;
  std::atomic<std::uint32_t> sleepers;  ///< threads that sleep until the value changes

  /// For its one owner. What was written before is visible to those whose wait it ends.
  void set(std::uint32_t now);
  /// Returns when the value is at least `least`; `waiters` ranks of this node may wait at the same time.
  void wait_for(std::uint32_t least, std::size_t waiters);
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace mn
