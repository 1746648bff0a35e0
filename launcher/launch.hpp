/// The whole of mnlaunch after its options: connect, compare the nodes, bind, and become the program.
#pragma once

#include <chrono>

#include "cli/options.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// What a rank waits after its last line: where another was killed, srun leaves what reaches it after the last task's
/// end, and TCP may hold a line back that long (mn/job/standard_error.hpp).
inline constexpr std::chrono::milliseconds kUntilShown{250};

/// Collective over the ranks where there is a PMIx server. Returns an exit status only if the program is not started
/// (--dry-run, --doctor, a failed check: 78). Throws Error.
[[nodiscard]] int launch(const Options& options, Variables variables);

}  // namespace mn::launcher
