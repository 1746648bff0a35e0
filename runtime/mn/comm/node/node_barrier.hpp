/// How ranks of a node wait for each other: a counter in memory that they share, and a barrier made of such counters,
/// which takes a microsecond where MPI's takes several.
///
/// NodeReducer and SharedReducer call them, on all ranks of a node at once.
///
/// Invariants:
/// 1. A counter has one owner, which alone sets it; it never falls. Values may wrap: they are compared by the sign of
///    their difference.
/// 2. What the owner wrote before set() is visible to those whose wait it ends.
/// 3. No wake-up gets lost: a sleeper first counts itself in, then reads the value again; the owner first writes the
///    value, then reads the count. Both use sequentially consistent operations, so at least one sees the other.
///
/// Cost: set() writes one cache line, and enters the kernel only if someone sleeps. A wait spins for some microseconds,
/// then yields the CPU for up to 20 ms (where ranks lack CPUs of their own, it hardly does either), then sleeps: a
/// long wait costs the ranks that compute nothing. A barrier of n ranks: up to 16, one set() and n waits for each rank,
/// n² transfers of cache lines, of which none waits for another; above, a tree: 2 n transfers, log n of them in a row.
/// Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", 1988 (all-to-all flags);
/// J. Mellor-Crummey, M. Scott, "Algorithms for scalable synchronization on shared-memory multiprocessors", 1991 (tree
/// of arrivals, one flag that all wait for); futex(2), whose order of steps is that of U. Drepper, "Futexes are
/// tricky", 2011.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <mpi.h>

namespace mn {

/// A number that one rank raises and the others wait for. Zeroed before use.
struct alignas(64) SharedCounter {
  std::atomic<std::uint32_t> value;     ///< set by the owner alone
  std::atomic<std::uint32_t> sleepers;  ///< threads that sleep until the value changes

  /// For the owner.
  void set(std::uint32_t now);
  /// Returns when the value is at least `least`. `may_spin`: each rank that may wait has a CPU. Throws CommError where
  /// the call has a time-out that ends it.
  void wait_for(std::uint32_t least, bool may_spin);
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// Collective over the ranks of a node: whether each has a CPU, by the CPUs that they may run on and by the time that
/// their cgroups grant. The same on all of them.
[[nodiscard]] bool has_cpu_for_each_rank(MPI_Comm node);

/// Each rank raises its own counter: of a few ranks at once, and waits for all the others'; of many when the ranks
/// below it in a tree have, and waits for that of rank 0, the top.
class NodeBarrier {
 public:
  /// Ranks up to which each waits for all others.
  static constexpr std::size_t kMaxDirect = 16;

  /// `arrivals[r]` is rank r's counter as this process sees it, for this barrier alone.
  NodeBarrier(const std::vector<SharedCounter*>& arrivals, int rank, bool may_spin);

  /// Returns when every rank has called it; what they wrote before is then visible here.
  void arrive_and_wait() {
    ++epoch_;
    for (SharedCounter* each : below_) each->wait_for(epoch_, may_spin_);
    own_->set(epoch_);
    for (SharedCounter* each : all_) each->wait_for(epoch_, may_spin_);
  }

 private:
  SharedCounter* own_;
  std::vector<SharedCounter*> below_;  // this rank arrives after them
  std::vector<SharedCounter*> all_;    // when they have arrived, every rank has
  bool may_spin_;
  std::uint32_t epoch_ = 0;
};

}  // namespace mn
