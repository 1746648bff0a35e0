/// One start of a program by mnlaunch, after the options are read. launch() runs these steps from top to bottom:
///
///   place     place/              finds the rank, its job, and the way to the other ranks
///   round 1   rounds/arrive.hpp   lists the ranks; each rank's node number comes down
///   round 2   rounds/compare.hpp  facts go up, the root runs the checks; the verdict and each rank's binding come down
///   round 3   rounds/agree.hpp    each rank binds itself and opens its output; go, or the first failure, comes down
///   start     start/start.hpp     exports variables and becomes the program
///
/// In each round facts go up to the root and a verdict comes down once (exchange/exchange.hpp). A rank with an error
/// reports the error in its next message, and the root makes the error the verdict of all ranks.
#pragma once

#include <chrono>

#include "cli/options.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// A rank sleeps this long between its last line and its exit. If another rank was killed, srun drops text that arrives
/// after the last task has ended, and TCP may delay a line for about this time (mn/job/standard_error.hpp).
inline constexpr std::chrono::milliseconds kUntilShown{250};

/// Collective over all connected ranks of the job. Returns an exit status if the program is not started: after
/// --dry-run, or if the verdict forbids the start. Otherwise this process becomes the program, and launch() does not
/// return. Throws Error.
[[nodiscard]] int launch(const Options& options, Variables variables);

}  // namespace mn::launcher
