/* What an MPI program sees beside what mnlaunch exports. C, so that the compiler of any MPI takes it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("%d of %d, RANK %s\n", rank, size, getenv("RANK"));
  return MPI_Finalize();
}
