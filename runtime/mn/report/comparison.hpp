/// Compares several runs by a table, and by curves in one chart.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// Sorts the runs, the best first, by the main metric of the first run that has a metric. Runs without this metric come
/// last. Removes from the names the folders that all names have.
[[nodiscard]] std::vector<Run> ranked(std::vector<Run> runs);

/// Table and curves of runs in the order of ranked(). Each of the best runs has its color; the other runs are gray.
[[nodiscard]] std::string compare(const std::vector<Run>& runs, double now);

}  // namespace mn::report
