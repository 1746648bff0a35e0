/// Compares several runs in a table, and by their curves in one chart.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Sorts the runs by the main metric of the first run that has a main metric. The best run comes first; runs without
/// the metric come last. If the names of all runs begin with the same folders, removes these folders from the names.
[[nodiscard]] std::vector<Run> ranked(std::vector<Run> runs);

/// Returns the HTML of runs in the order of ranked(). The best runs have colors, and all other runs are gray.
[[nodiscard]] std::string compare(const std::vector<Run>& runs, double now);

}  // namespace mn::report
