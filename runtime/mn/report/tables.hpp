/// Tables of a report, and names of runs and metrics. Bytes are shown in MiB.
#pragma once

#include <string>
#include <vector>

#include <mn/report/chart.hpp>
#include <mn/report/run_files.hpp>

namespace mn::report {

/// "mnist, 2026-11-25 08:00 UTC, n1 and 3 more: OUT": job, last start and hosts. Omits parts missing in run.jsonl or
/// different between the runs (at least one).
[[nodiscard]] std::string title_of(const std::vector<Run>& runs);

/// The metric over iterations; with `by_epoch`, over epochs, which all log entries must have.
[[nodiscard]] Curve curve_of(const Run& run, const std::string& metric, bool by_epoch = false);
/// True if the metric is constant in each run, and some run has more than one point.
[[nodiscard]] bool is_constant(const std::vector<Run>& runs, const std::string& metric);
/// The metric's name in the report: "bytes_per_step" is shown as "MiB_per_step".
[[nodiscard]] std::string shown_name(const std::string& metric);

/// Command, hosts, end, and the last and best value of each metric.
[[nodiscard]] std::string summary_table(const std::vector<Run>& runs);
/// For one run: options that differ from their defaults, and the defaults. For several runs: options that differ
/// between the runs.
[[nodiscard]] std::string options_that_differ(const std::vector<Run>& runs);
/// All options that options_that_differ() omits; for a single run only.
[[nodiscard]] std::string other_options(const std::vector<Run>& runs);

}  // namespace mn::report
