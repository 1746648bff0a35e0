#include "cli/built_with.hpp"

#include <mn/core/mpi_name.hpp>

namespace mn::launcher {

std::string built_with() { return "built with " + mpi_of_build(); }

}  // namespace mn::launcher
