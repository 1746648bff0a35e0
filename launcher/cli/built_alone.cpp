#include "cli/built_with.hpp"

namespace mn::launcher {

std::string built_with() { return "built alone, for programs of any MPI"; }

}  // namespace mn::launcher
