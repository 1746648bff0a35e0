/// What `mnlaunch --version` says of the build. CMake selects the source: built_with_mpi.cpp or built_alone.cpp.
#pragma once

#include <string>

namespace mn::launcher {

/// For example "built with Open MPI 4.1.4".
[[nodiscard]] std::string built_with();

}  // namespace mn::launcher
