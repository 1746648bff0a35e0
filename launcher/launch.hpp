/// One start of a program by mnlaunch, after the options are read. launch() runs these steps from top to bottom:
///
///   place     place/              finds this rank, its job, and the way to the ranks of the job
///   round 1   rounds/arrive.hpp   the root lists all ranks; each rank gets the number of its node
///   round 2   rounds/compare.hpp  the root checks the facts of all nodes; each rank gets the verdict and its binding
///   round 3   rounds/agree.hpp    each rank binds itself and opens its output; each rank learns whether all could
///   start     start/start.hpp     exports variables and becomes the program
///
/// In each round, messages go up to the root once, and a verdict comes down to all ranks once (exchange/exchange.hpp).
/// A rank reports its error in the next message, and the root makes the error the verdict for all ranks.
#pragma once

#include <chrono>

#include "cli/options.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// Pause between a rank's last line and its exit: srun drops late text (mn/job/standard_error.hpp).
inline constexpr std::chrono::milliseconds kUntilShown{250};

/// Collective over all connected ranks of the job. Returns an exit status after --dry-run, or if the verdict forbids
/// the start. Otherwise this process becomes the program. Throws Error.
[[nodiscard]] int launch(const Options& options, Variables variables);

}  // namespace mn::launcher
