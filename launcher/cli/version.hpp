#pragma once

#include <string>

namespace mn::launcher {

/// "Open MPI 4.1.4": the MPI that this build's programs are linked with. mnlaunch itself is linked with none.
[[nodiscard]] std::string mpi_of_build();

}  // namespace mn::launcher
