/// Several runs side by side: a table, and curves on top of each other.
#pragma once

#include <string>
#include <vector>

#include <mn/report/run_files.hpp>

namespace mn::report {

/// The runs, the best first, by the main metric of the first run with a metric. Runs without the metric come last.
/// Names lose the folders common to all names.
[[nodiscard]] std::vector<Run> ranked(std::vector<Run> runs);

/// Table and curves of runs in the order of ranked(). The best runs have colors of their own, the others are gray.
[[nodiscard]] std::string compare(const std::vector<Run>& runs, double now);

}  // namespace mn::report
