#include <mn/comm/mpi/progress.hpp>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {

void progress_mpi() noexcept {
  if (!mpi_is_up()) return;
  int found = 0;
  // Any call of MPI moves the messages of all communicators, and no rank sends on MPI_COMM_SELF.
  static_cast<void>(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE));
}

}  // namespace mn
