#include <mn/comm/mpi/progress.hpp>

#include <atomic>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {
namespace {

std::atomic<int> pending_requests{0};

}  // namespace

// Relaxed, here and below: the count orders no other memory, and a wait looks again after a missed change.
PendingRequest::PendingRequest() noexcept { pending_requests.fetch_add(1, std::memory_order_relaxed); }

PendingRequest::~PendingRequest() { pending_requests.fetch_sub(1, std::memory_order_relaxed); }

bool has_pending_requests() noexcept { return pending_requests.load(std::memory_order_relaxed) > 0; }

void progress_mpi() noexcept {
  if (!mpi_is_up()) return;
  int found = 0;
  // Any call of MPI moves messages. No rank sends on MPI_COMM_SELF, so the probe takes no message from anyone.
  static_cast<void>(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE));
}

}  // namespace mn
