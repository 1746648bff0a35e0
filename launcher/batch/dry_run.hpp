/// mnlaunch --dry-run SCRIPT on a login node: what sbatch would reject in the script, and what would fail at the start.
#pragma once

#include "batch/batch_script.hpp"
#include "cli/options.hpp"

namespace mn::launcher {

/// All findings, sorted by line. Asks sbatch --test-only, where it exists, if the options have no fault by themselves.
[[nodiscard]] LineFindings check_batch_script(const std::filesystem::path& file, const BatchStart& start);

/// Checks the script options.program, and prints a line for each finding. Returns the exit status: 0, or 1 if there is
/// a finding. No value if the program is no batch script, or if a launcher has started this process.
[[nodiscard]] std::optional<int> run_batch_check(const Options& options);

}  // namespace mn::launcher
