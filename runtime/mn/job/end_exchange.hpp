/// Exchanges the exit statuses of the ranks' programs at the end of a job.
#pragma once

#include <array>
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
  /// The smallest and the largest status over all ranks.
  struct Ends {
    int least = 0;
    int most = 0;
  };

  /// Collective: exchanges the ranks' statuses; `own` is the calling rank's status. Waits at most for `patience`, or
  /// without a limit if `patience` has no value. Returns no value if some rank's program has not ended in time, or if
  /// MPI fails; this object must then live until MPI is finalized. A rank calls run() whether its program has returned
  /// or thrown an exception, because ranks with different ends must join the same call.
  [[nodiscard]] std::optional<Ends> run(MPI_Comm comm, int own, std::optional<std::chrono::seconds> patience);

 private:
  std::array<int, 2> ends_ = {};  // MPI may write here after run() has given up
};

/// Collective: returns the statuses of all ranks, by rank; `own` is the calling rank's status.
[[nodiscard]] std::vector<int> all_statuses(MPI_Comm comm, int own);

}  // namespace mn
