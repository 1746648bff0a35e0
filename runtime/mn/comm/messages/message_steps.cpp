#include <mn/comm/messages/message_steps.hpp>

#include <string>

#include <mn/comm/mpi/call_mismatch.hpp>
#include <mn/comm/mpi/mpi.hpp>

namespace mn {

void require_length(const MPI_Status& received, std::size_t expected, std::string_view what) {
  int bytes = 0;
  mpi_check(MPI_Get_count(&received, MPI_BYTE, &bytes), "MPI_Get_count");
  // MPI cannot count more than INT_MAX bytes.
  if (bytes == MPI_UNDEFINED || static_cast<std::size_t>(bytes) == expected) return;
  throw CallMismatch(std::string(what) + ": rank " + std::to_string(received.MPI_SOURCE) + " of the group sends " +
                     std::to_string(bytes) + " bytes where this rank expects " + std::to_string(expected) + ": " +
                     kSameCalls + " says which rank differs");
}

}  // namespace mn
