/// A barrier between processes that share memory, a microsecond where MPI's takes several.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace mn {

/// One rank's place in the barrier, in shared memory; zeroed before use.
struct alignas(64) BarrierLine {
  std::atomic<std::uint32_t> epoch;     ///< barriers that this rank has reached
  std::atomic<std::uint32_t> sleepers;  ///< ranks that sleep until the epoch changes
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// Each rank writes its own line and reads the others'. Waits spin for some microseconds, unless the node has more
/// ranks than CPUs, give way to whoever waits for the CPU for some more, and then sleep in the kernel: long waits cost
/// the ranks that compute nothing.
class NodeBarrier {
 public:
  /// `lines[r]` is rank r's line as this process sees it.
  NodeBarrier(std::vector<BarrierLine*> lines, int rank);

  /// Returns when every rank has called it; what they wrote before is then visible here.
  void arrive_and_wait();

 private:
  void wait_for(BarrierLine& line) const;

  std::vector<BarrierLine*> lines_;
  int rank_;
  int spins_;
  std::uint32_t epoch_ = 0;
};

}  // namespace mn
