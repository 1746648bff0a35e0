/// Shows the settings of a run: command, sizes, versions and options.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Returns a section with the run's command, sizes, versions and options. First come the options that differ from their
/// defaults, with the values that the run has used. A click shows all other options. Of options without an effect, only
/// the names are shown.
[[nodiscard]] std::string settings_of(const Run& run);

/// Returns the options whose values differ between the runs that have them, except `out`. First come the options that
/// some run has set, then options that all runs have left at their defaults, last the options without an effect in all
/// runs. In each of these groups, options with more different values come first.
[[nodiscard]] std::vector<std::string> differing_options(const std::vector<Run>& runs);

/// Makes a table of all metrics in the log, with the last value, the best value, and the epoch of the best value.
[[nodiscard]] std::string values_table(const Run& run);

}  // namespace mn::report
