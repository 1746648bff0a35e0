/// Shows the settings of a run: command, sizes, versions and options.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// A section with the run's command, sizes, versions and options: first the options that differ from their defaults,
/// with the values that the run has used; after a click all others. Options without an effect are only named.
[[nodiscard]] std::string settings_of(const Run& run);

/// The options whose values differ between the runs that have them, except `out`: first those that some run has set,
/// then those at their defaults, last those without an effect in all runs; in each group by the number of values.
[[nodiscard]] std::vector<std::string> differing_options(const std::vector<Run>& runs);

/// A table of all metrics in the log: last value, best value, and the epoch of the best value.
[[nodiscard]] std::string values_table(const Run& run);

}  // namespace mn::report
