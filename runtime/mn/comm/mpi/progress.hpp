/// How waits that do not call MPI let it go on.
///
/// MPI moves messages only while the process is in one of its calls. A rank that waits in shared memory or for a GPU
/// with a request out would hold up the peer that waits for that message, and with it perhaps whom it waits for itself.
///
/// Invariants:
/// 1. Requests are counted for the whole process: MPI moves the messages of all communicators in any of its calls.
/// 2. Calls of MPI that block need none of this; what they have sent and received is done when they return.
///
/// Cost: with no request out, one relaxed load.
#pragma once

namespace mn {

/// Counts, while it lives, a request of MPI's that is not completed.
class PendingRequest {
 public:
  PendingRequest() noexcept;
  ~PendingRequest();
  PendingRequest(const PendingRequest&) = delete;
  PendingRequest& operator=(const PendingRequest&) = delete;
};

/// Whether this process has one.
[[nodiscard]] bool has_pending_requests() noexcept;

/// Lets MPI go on, if it is running. For waits that take long anyway, because MPI may have more to do than requests
/// say.
void progress_mpi() noexcept;

/// The same if there are requests: for every look at what a wait waits for.
inline void progress_pending_requests() noexcept {
  if (has_pending_requests()) progress_mpi();
}

}  // namespace mn
