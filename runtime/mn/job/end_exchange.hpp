/// How the ranks of a job learn in which ways their programs have ended.
#pragma once

#include <array>
#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include <mpi.h>

namespace mn {

/// Stands for a status where the program has thrown.
inline constexpr int kThrown = std::numeric_limits<int>::max();

class EndExchange {
 public:
  /// Over all ranks, the least and the most status.
  struct Ends {
    int least = 0;
    int most = 0;
  };

  /// No value if not all ranks' programs have ended within `patience` (std::nullopt: forever), or MPI fails: then this
  /// must outlive MPI. One kind of call for all ends, because ranks that end in different ways must meet in it.
  [[nodiscard]] std::optional<Ends> run(MPI_Comm comm, int own, std::optional<std::chrono::seconds> patience);

 private:
  std::array<int, 2> ends_ = {};  // MPI may go on writing to it
};

/// Collective: each rank's status.
[[nodiscard]] std::vector<int> all_statuses(MPI_Comm comm, int own);

}  // namespace mn
