/// Compares several runs by a table, and by curves in one chart.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Sorts the runs by the main metric of the first run that has one: the best run comes first, runs without the metric
/// come last. If the names of all runs begin with equal folders, removes the folders from the names.
[[nodiscard]] std::vector<Run> ranked(std::vector<Run> runs);

/// The table and the curves of runs in the order of ranked(). The best runs have colors, all others are gray.
[[nodiscard]] std::string compare(const std::vector<Run>& runs, double now);

}  // namespace mn::report
