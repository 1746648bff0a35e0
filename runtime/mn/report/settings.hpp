/// Shows the settings of a run: command, sizes, versions and options.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Returns a section with the run's command, sizes, versions and options. The options that differ from their defaults
/// come first, with the values that the run has used; a click shows all others. Of options without an effect only the
/// names are shown.
[[nodiscard]] std::string settings_of(const Run& run);

/// The names of the options whose values differ between the runs, except `out`. Runs without an option are not compared
/// in it. Options that some run has set come before the options that all runs left at their defaults; the options
/// without an effect in all runs come last. In each group the options with the most values come first.
[[nodiscard]] std::vector<std::string> differing_options(const std::vector<Run>& runs);

/// A table of all metrics in the log: last value, best value, and the epoch of the best value.
[[nodiscard]] std::string values_table(const Run& run);

}  // namespace mn::report
