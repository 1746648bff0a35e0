#include <mn/job/end_exchange.hpp>

#include <thread>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {

std::optional<std::vector<int>> EndExchange::run(MPI_Comm comm, int own, std::optional<std::chrono::seconds> patience) {
  if (!mpi_is_up()) return std::vector{own};  // the program has finalized MPI, so each rank ends by itself
  own_ = own;
  all_.resize(static_cast<std::size_t>(size_of(comm)));
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Iallgather(&own_, 1, MPI_INT, all_.data(), 1, MPI_INT, comm, &request) != MPI_SUCCESS) return {};
  const auto begin = std::chrono::steady_clock::now();
  for (int done = 0; done == 0;) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return {};
    if (done != 0) break;
    if (patience && std::chrono::steady_clock::now() - begin > *patience) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return all_;
}

}  // namespace mn
