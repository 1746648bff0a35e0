/// Exchanges the exit statuses of the ranks' programs at the end of a job.
#pragma once

#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include <mpi.h>

namespace mn {

/// Stands for the exit status of a program that has thrown an exception.
inline constexpr int kThrown = std::numeric_limits<int>::max();

class EndExchange {
 public:
  /// Collective: returns the statuses of all ranks, by rank; `own` is the calling rank's status. Waits at most for
  /// `patience`, or without a limit if `patience` has no value. Returns no value if some rank's program has not ended
  /// in time, or if MPI fails; this object must then live until MPI is finalized. A rank calls run() whether its
  /// program has returned or thrown an exception, because ranks with different ends must join the same call.
  [[nodiscard]] std::optional<std::vector<int>> run(MPI_Comm comm, int own,
                                                    std::optional<std::chrono::seconds> patience);

 private:
  int own_ = 0;
  std::vector<int> all_;  // MPI may write here after run() has given up
};

}  // namespace mn
