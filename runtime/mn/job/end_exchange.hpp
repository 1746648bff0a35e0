/// Exchange of the programs' exit statuses at the end of a job.
#pragma once

#include <array>
#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include <mpi.h>

namespace mn {

/// The status of a program that has thrown an exception.
inline constexpr int kThrown = std::numeric_limits<int>::max();

class EndExchange {
 public:
  /// The smallest and the largest status over all ranks.
  struct Ends {
    int least = 0;
    int most = 0;
  };

  /// Collective. No value if some rank's program has not ended within `patience` (std::nullopt: forever), or if MPI
  /// fails; then the object must outlive MPI. All kinds of ends share the call, because ranks with different ends must
  /// meet.
  [[nodiscard]] std::optional<Ends> run(MPI_Comm comm, int own, std::optional<std::chrono::seconds> patience);

 private:
  std::array<int, 2> ends_ = {};  // MPI may write here after run() has given up
};

/// Collective: the status of each rank, by rank.
[[nodiscard]] std::vector<int> all_statuses(MPI_Comm comm, int own);

}  // namespace mn
