/// Progress of MPI during waits that do not call MPI. MPI moves messages only inside its calls. While a rank waits in
/// shared memory or for a GPU, the ranks with which its pending requests communicate would wait too, and so might
/// further ranks that wait for these. Blocking calls of MPI need no help. Cost: one relaxed load while no request is
/// pending.
#pragma once

#include <atomic>

namespace mn {

/// Counts the process's living objects with the same `Tag`. Any thread.
template <class Tag>
class LiveCount {
 public:
  // Here and below, relaxed order is enough: the count orders no other memory, and a wait that misses a change looks
  // again.
  LiveCount() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  ~LiveCount() { count_.fetch_sub(1, std::memory_order_relaxed); }
  LiveCount(const LiveCount&) = delete;
  LiveCount& operator=(const LiveCount&) = delete;

  [[nodiscard]] static bool any() noexcept { return count_.load(std::memory_order_relaxed) > 0; }

 private:
  static inline std::atomic<int> count_{0};
};

/// Counts a request of MPI as pending while it lives.
using PendingRequest = LiveCount<struct PendingRequestTag>;

/// Lets MPI move the messages of all communicators. Long waits call it even if no request of mn is pending, because the
/// program may have requests of its own.
void progress_mpi() noexcept;

/// Calls progress_mpi() if requests are pending. A wait calls it each time it looks at its condition.
inline void progress_pending_requests() noexcept {
  if (PendingRequest::any()) progress_mpi();
}

}  // namespace mn
