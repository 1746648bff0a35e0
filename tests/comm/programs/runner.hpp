/// Runs one rank's part of a random program, and compares results with the model.
#pragma once

#include <functional>

#include "tests/comm/programs/program.hpp"

namespace mn::testing {

/// Collective over MPI_COMM_WORLD. `report` is called before each call, which may hang.
void run_program(const Program& program, int world_rank, const Machine& machine,
                 const std::function<void(const Action&)>& report);

}  // namespace mn::testing
