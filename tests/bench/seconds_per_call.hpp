/// Times collective calls beside each other.
#pragma once

#include <mpi.h>

namespace mn::bench {

/// The slowest rank's time of `repeats` calls, per call.
template <class Call>
double seconds_per_call(const Call& call, int repeats) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < repeats; ++i) call();
  double seconds = (MPI_Wtime() - begin) / repeats;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

}  // namespace mn::bench
