/// Counters in shared memory by which ranks of a node wait for each other, and a barrier made of such counters. The
/// barrier takes a microsecond; MPI's takes several.
///
/// Invariants:
/// 1. Each counter has one owner, and only the owner sets the counter. The value never falls. It may wrap around,
///    because values are compared by the sign of their difference.
/// 2. Memory that the owner wrote before set() is visible to the ranks whose wait ends.
/// 3. No wake-up gets lost. A thread that is about to sleep first increments `sleepers`, then reads the value again.
///    The owner first writes the value, then reads `sleepers`. All four operations are sequentially consistent, so the
///    thread sees the new value, or the owner sees the sleeper.
///
/// Cost: set() writes one cache line, and enters the kernel only if a rank sleeps. A wait spins for some microseconds,
/// then yields the CPU for up to 20 ms, then sleeps. Ranks that share CPUs hardly spin or yield. A barrier of n ranks
/// takes one set() and n waits for each rank, if n is at most 16. For more ranks the barrier is a tree with 2 n
/// transfers of cache lines, of which log n come one after another. Source: D. Hensgen, R. Finkel, U. Manber, "Two
/// algorithms for barrier synchronization", 1988 (all-to-all flags); J. Mellor-Crummey, M. Scott, "Algorithms for
/// scalable synchronization on shared-memory multiprocessors", 1991 (tree); U. Drepper, "Futexes are tricky", 2011.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <mpi.h>

namespace mn {

/// A counter in shared memory. One rank, the owner, raises the value, and other ranks wait until it is high enough.
/// Zero the memory before use.
struct alignas(64) SharedCounter {
  std::atomic<std::uint32_t> value;     ///< set by the owner alone
  std::atomic<std::uint32_t> sleepers;  ///< threads that sleep until the value changes

  /// Only the owner may call set().
  void set(std::uint32_t now);
  /// Returns when the value is at least `least`. May spin if `may_spin` is true: each rank of the node then has its own
  /// CPU. Throws CommError if the time-out of the call ends the wait.
  void wait_for(std::uint32_t least, bool may_spin);
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// Collective over the ranks of a node: returns whether each rank has a CPU of its own, according to CPU masks and the
/// quota of cgroups. All ranks get the same answer.
[[nodiscard]] bool has_cpu_for_each_rank(MPI_Comm node);

/// A barrier made of counters, one for each rank. Up to kMaxDirect ranks, each rank raises its counter and waits for
/// every counter. With more ranks, a rank waits for its children in a tree, raises its counter, and waits for the
/// counter of rank 0, the root of the tree.
class NodeBarrier {
 public:
  static constexpr std::size_t kMaxDirect = 16;  ///< the most ranks of which each waits for all others

  /// `arrivals[r]` is the address of rank r's counter in the calling process. Only the barrier may use the counters.
  NodeBarrier(const std::vector<SharedCounter*>& arrivals, int rank, bool may_spin);

  /// Returns when every rank has called this function. Memory that other ranks wrote before their call is then visible.
  void arrive_and_wait() {
    ++epoch_;
    for (SharedCounter* each : below_) each->wait_for(epoch_, may_spin_);
    own_->set(epoch_);
    for (SharedCounter* each : all_) each->wait_for(epoch_, may_spin_);
  }

 private:
  SharedCounter* own_;
  std::vector<SharedCounter*> below_;  // counters of the rank's children in the tree
  std::vector<SharedCounter*> all_;    // once all these counters are raised, every rank has arrived
  bool may_spin_;
  std::uint32_t epoch_ = 0;
};

}  // namespace mn
