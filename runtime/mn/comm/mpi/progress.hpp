/// Progress of MPI during waits that do not call MPI.
///
/// MPI moves messages only inside its calls. A rank with a pending request may wait in shared memory or for a GPU;
/// without progress, the peer of the request would wait too, and perhaps other ranks for the peer.
///
/// Invariants:
/// 1. Pending requests are counted for the whole process: any call of MPI moves the messages of all communicators.
/// 2. Blocking calls of MPI need no help: their messages are done when they return.
///
/// Cost: one relaxed load while no request is pending.
#pragma once

namespace mn {

/// Counts a request of MPI as pending while it lives.
class PendingRequest {
 public:
  PendingRequest() noexcept;
  ~PendingRequest();
  PendingRequest(const PendingRequest&) = delete;
  PendingRequest& operator=(const PendingRequest&) = delete;
};

/// Whether a request of the process is pending.
[[nodiscard]] bool has_pending_requests() noexcept;

/// Lets MPI move messages, if MPI is running. For waits that last long anyway: MPI may have more to do than pending
/// requests tell.
void progress_mpi() noexcept;

/// progress_mpi(), if requests are pending. For every look of a wait at its condition.
inline void progress_pending_requests() noexcept {
  if (has_pending_requests()) progress_mpi();
}

}  // namespace mn
