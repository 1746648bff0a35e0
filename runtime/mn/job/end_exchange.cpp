#include <mn/job/end_exchange.hpp>

#include <thread>

#include <mn/comm/mpi/mpi.hpp>

namespace mn {

std::optional<EndExchange::Ends> EndExchange::run(MPI_Comm comm, int own,
                                                  std::optional<std::chrono::seconds> patience) {
  if (!mpi_is_up()) return Ends{own, own};  // the program has finalized MPI, so each rank ends by itself
  ends_ = {own, -own};
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Iallreduce(MPI_IN_PLACE, ends_.data(), 2, MPI_INT, MPI_MAX, comm, &request) != MPI_SUCCESS) return {};
  const auto begin = std::chrono::steady_clock::now();
  for (int done = 0; done == 0;) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return {};
    if (done != 0) break;
    if (patience && std::chrono::steady_clock::now() - begin > *patience) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return Ends{-ends_[1], ends_[0]};
}

std::vector<int> all_statuses(MPI_Comm comm, int own) {
  std::vector<int> all(static_cast<std::size_t>(size_of(comm)));
  mpi_check(MPI_Allgather(&own, 1, MPI_INT, all.data(), 1, MPI_INT, comm), "comparing the ranks' statuses");
  return all;
}

}  // namespace mn
