/// How the ranks of one communicator are numbered in another.
#pragma once

#include <vector>

#include <mpi.h>

namespace mn {

/// Local. For each rank of `part` its rank in `group`; -1 if it has none, as in a job that MPI_Comm_spawn() began.
[[nodiscard]] std::vector<int> ranks_in(MPI_Comm group, MPI_Comm part);
/// Local. Whether every rank of `part`, to which the calling rank belongs, is a rank of `group`.
[[nodiscard]] bool includes(MPI_Comm group, MPI_Comm part);

}  // namespace mn
