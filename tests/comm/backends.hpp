/// Backends for CPUs with different code, for tests that need not run every name of the table.
#pragma once

#include <string>

namespace mn::testing {

/// On one node two_dimensional and single_node run the code of hierarchical; naive and dummy differ from flat only for
/// gradients.
inline const std::string kBackendsOnOneNode[] = {"flat", "hierarchical"};
/// For gradients on one node: naive reduces each gradient by itself, dummy reduces none.
inline const std::string kGradientBackends[] = {"naive", "flat", "hierarchical", "dummy"};
/// For layouts of several nodes.
inline const std::string kBackendsOverNodes[] = {"flat", "hierarchical", "two_dimensional"};

}  // namespace mn::testing
