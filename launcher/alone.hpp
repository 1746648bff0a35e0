/// The checks of a rank that cannot exchange facts with others.
#pragma once

#include "connect.hpp"
#include "this_rank.hpp"

namespace mn::launcher {

/// A rank without an exchange sees its own node only, and assumes that the node's other ranks are like itself. Prints a
/// note on rank 0 of several nodes that they were not compared.
[[nodiscard]] Outcome check_alone(const Connection& connection, const ThisRank& rank);

}  // namespace mn::launcher
