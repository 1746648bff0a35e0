/// Keeps MPI's messages moving during waits that do not call MPI, because MPI moves messages only inside its calls. If
/// a rank waited in shared memory or for a GPU, its nonblocking messages would stop, and the ranks that wait for them
/// would wait longer. Cost: one relaxed load while no request is pending.
#pragma once

#include <atomic>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {

/// Counts the objects with the same `Tag` that live in the process. Any thread may make and destroy objects.
template <class Tag>
class LiveCount {
 public:
  // Relaxed order is enough: the count orders no accesses to other memory, and a wait that misses a change reads again.
  LiveCount() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  ~LiveCount() { count_.fetch_sub(1, std::memory_order_relaxed); }
  LiveCount(const LiveCount&) = delete;
  LiveCount& operator=(const LiveCount&) = delete;

  [[nodiscard]] static bool any() noexcept { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  static inline std::atomic<int> count_{0};
};

using PendingRequest = LiveCount<struct PendingRequestTag>;

/// Lets MPI move the messages of all communicators. Long waits call it even if mn has no message under way, because the
/// program may have MPI requests.
inline void progress_mpi() noexcept {
  if (!mpi_is_up()) return;
  int found = 0;
  // Any call of MPI moves the messages of all communicators; on MPI_COMM_SELF there is nothing to receive.
  static_cast<void>(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE));
}

/// Lets MPI move messages if a PendingRequest lives. Every wait that polls calls this function in each round.
inline void progress_pending_requests() noexcept {
  if (PendingRequest::any()) progress_mpi();
}

}  // namespace mn
