/// The self test of --doctor, a program beside mnlaunch (selftest/): conditions and start.
#pragma once

#include <string>

#include "cli/options.hpp"
#include "place/variables.hpp"
#include "rounds/this_rank.hpp"

namespace mn::launcher {

[[nodiscard]] std::string path_of_self_test();

/// Throws UsageError unless MN_DOCTOR_TIMEOUT is unset or at least 1.
void require_time_of_doctor(const Variables& variables);

/// For rank 0, which reads and writes the files: --save and --history must name files, no devices or pipes, and
/// --against a report. Throws UsageError.
void require_files_of_doctor(const Options& options);

/// Becomes the self test; its report contains `report`, the report of the checks. Throws Error.
[[noreturn]] void become_self_test(const ThisRank& rank, const std::string& report, Variables& variables);

}  // namespace mn::launcher
