/// mnlaunch --node-check: whether this node alone is fit for jobs. For Slurm's HealthCheckProgram and Prolog.
///
/// To add a check, add a row to expectations.cpp if it compares one value, or a function to node_check.cpp.
#pragma once

#include "checks/findings.hpp"
#include "cli/options.hpp"
#include "node/expectations.hpp"
#include "node/node_state.hpp"

namespace mn::launcher {

/// All faults as errors, except those of the checks in options.warn. Leaves out the checks in options.skip.
[[nodiscard]] Findings check_node(const NodeState& node, const Expectations& expected, const Options& options);

/// Prints a line for each finding. Returns the exit status: 0, or 1 if there is an error. Throws UsageError.
[[nodiscard]] int run_node_check(const Options& options);

}  // namespace mn::launcher
