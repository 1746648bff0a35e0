/// Shows the settings of a run: command, sizes, versions and options.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Returns the run's command, sizes, versions and options. A click shows the options that have their defaults. Of
/// options without an effect, only the names are shown.
[[nodiscard]] std::string settings_of(const Run& run);

/// Returns the options, except `out`, whose values differ between runs that have them: first options that a run has
/// set, last options without an effect in any run; among these, options with more values first.
[[nodiscard]] std::vector<std::string> differing_options(const std::vector<Run>& runs);

/// Makes a table of all metrics in the log, with the last value, the best value, and the epoch of the best value.
[[nodiscard]] std::string values_table(const Run& run);

}  // namespace mn::report
