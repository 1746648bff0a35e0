// Preloaded into the self test: large messages from the rank in MN_TEST_SLOW take long; messages from the rank in
// MN_TEST_MUTE never arrive.
#include <chrono>
#include <cstdlib>
#include <thread>

#include <mpi.h>

namespace {

bool is_rank(const char* variable, MPI_Comm comm) {
  const char* text = std::getenv(variable);
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return text != nullptr && std::atoi(text) == rank;
}

}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  constexpr int kLarge = 1 << 20;
  if (count > kLarge && is_rank("MN_TEST_SLOW", comm)) std::this_thread::sleep_for(std::chrono::milliseconds(400));
  if (count > kLarge && is_rank("MN_TEST_MUTE", comm)) {
    static char never;
    return PMPI_Irecv(&never, 1, MPI_CHAR, dest, 32000, comm, request);
  }
  return PMPI_Isend(data, count, type, dest, tag, comm, request);
}
