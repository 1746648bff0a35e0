/// The whole of mnlaunch after its options: connect, compare the nodes, bind, and become the program.
#pragma once

#include "cli/options.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// Collective over the ranks where there is a PMIx server. Returns an exit status only if the program is not started
/// (--dry-run, --doctor, a failed check: 78). Throws Error.
[[nodiscard]] int launch(const Options& options, Variables variables);

}  // namespace mn::launcher
