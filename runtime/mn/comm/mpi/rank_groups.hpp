/// How the ranks of two communicators lie to each other.
#pragma once

#include <vector>

#include <mpi.h>

namespace mn {

/// Local. The ranks that those of `part` have in `group`; -1: none, as of a job that MPI_Comm_spawn() began.
[[nodiscard]] std::vector<int> ranks_in(MPI_Comm group, MPI_Comm part);
/// Local. Whether every rank of `part`, to which this rank belongs, is one of `group`'s.
[[nodiscard]] bool includes(MPI_Comm group, MPI_Comm part);

}  // namespace mn
