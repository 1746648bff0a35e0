/// Progress of MPI during waits that do not call MPI. MPI moves messages only inside its calls. Suppose that a rank
/// waits in shared memory or for a GPU, and calls no MPI: then ranks that exchange messages with its pending requests
/// would wait too, and so might the ranks that wait for them. Blocking calls of MPI need no help. Cost: one relaxed
/// load while no request is pending.
#pragma once

#include <atomic>

namespace mn {

/// Counts the objects with the same `Tag` that live in the process. Any thread may make and destroy objects.
template <class Tag>
class LiveCount {
 public:
  // Here and below, relaxed order is enough, because the count orders no accesses to other memory, and a wait that
  // misses a change reads the count again.
  LiveCount() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  ~LiveCount() { count_.fetch_sub(1, std::memory_order_relaxed); }
  LiveCount(const LiveCount&) = delete;
  LiveCount& operator=(const LiveCount&) = delete;

  [[nodiscard]] static bool any() noexcept { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  static inline std::atomic<int> count_{0};
};

/// While a PendingRequest lives, a request of MPI counts as pending.
using PendingRequest = LiveCount<struct PendingRequestTag>;

/// Lets MPI move the messages of all communicators. Long waits call it even if no request of mn is pending, because the
/// program may have requests of its own.
void progress_mpi() noexcept;

/// Calls progress_mpi() if requests are pending. Waits call it each time they poll their condition.
inline void progress_pending_requests() noexcept {
  if (PendingRequest::any()) progress_mpi();
}

}  // namespace mn
