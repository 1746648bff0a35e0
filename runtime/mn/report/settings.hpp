/// What was run: command, sizes, versions and options.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Command, sizes and versions; the options that differ from their defaults, with the values that the run used; and,
/// folded, all other options. Options without an effect are only named.
[[nodiscard]] std::string settings_of(const Run& run);

/// The names of the options whose used values differ between the runs, except `out`.
[[nodiscard]] std::vector<std::string> differing_options(const std::vector<Run>& runs);

/// The last values, best values and epochs of all metrics of the log, as a table.
[[nodiscard]] std::string values_table(const Run& run);

}  // namespace mn::report
