/// Names the implementation of MPI with which a source file is compiled. Needs MPI's headers, but not its libraries.
#pragma once

#include <string>

#include <mpi.h>

namespace mn {

/// The name and version, for example "Open MPI 4.1.4".
[[nodiscard]] inline std::string mpi_of_build() {
#if defined(OMPI_MAJOR_VERSION)
  const std::string numbers[] = {std::to_string(OMPI_MAJOR_VERSION), std::to_string(OMPI_MINOR_VERSION),
                                 std::to_string(OMPI_RELEASE_VERSION)};
  return "Open MPI " + numbers[0] + "." + numbers[1] + "." + numbers[2];
#elif defined(MVAPICH2_VERSION)
  return "MVAPICH2 " MVAPICH2_VERSION;
#elif defined(I_MPI_VERSION)
  return "Intel MPI " I_MPI_VERSION;
#elif defined(MPICH_VERSION)
  return "MPICH " MPICH_VERSION;
#else
  return "an MPI that implements version " + std::to_string(MPI_VERSION) + "." + std::to_string(MPI_SUBVERSION);
#endif
}

}  // namespace mn
