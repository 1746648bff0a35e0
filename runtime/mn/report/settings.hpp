/// The settings of a run: command, sizes, versions and options.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Command, sizes and versions; the options that differ from their defaults, with the values that the run used; a click
/// unfolds all other options. Of options without an effect only the names are shown.
[[nodiscard]] std::string settings_of(const Run& run);

/// The names of the options whose used values differ between those runs that have the option, except `out`. Options
/// with a value other than their default in some run come first; both groups are in the order of the names.
[[nodiscard]] std::vector<std::string> differing_options(const std::vector<Run>& runs);

/// A table of all metrics of the log: last value, best value and the best value's epoch.
[[nodiscard]] std::string values_table(const Run& run);

}  // namespace mn::report
