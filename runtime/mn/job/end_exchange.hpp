/// Exchanges the exit statuses of the ranks' programs at the end of a job.
#pragma once

#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include <mpi.h>

namespace mn {

/// The exit status that a rank passes if the program has thrown an exception.
inline constexpr int kThrown = std::numeric_limits<int>::max();

class EndExchange {
 public:
  /// Collective: returns the exit statuses of all ranks, by rank. `own` is the calling rank's status. Waits at most for
  /// `patience`, or without a limit if `patience` has no value. No value if some rank's program has not ended in time,
  /// or if MPI fails; this object must then live until MPI is finalized. A rank calls run() both after its program has
  /// returned and after an exception, because all ranks must make the call.
  [[nodiscard]] std::optional<std::vector<int>> run(MPI_Comm comm, int own,
                                                    std::optional<std::chrono::seconds> patience);

 private:
  int own_ = 0;
  std::vector<int> all_;  // MPI may write here after run() has given up
};

}  // namespace mn
