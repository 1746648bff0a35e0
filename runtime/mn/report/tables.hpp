/// A report's tables, and how it names runs and metrics. Bytes are shown in MiB.
#pragma once

#include <string>
#include <vector>

#include <mn/report/chart.hpp>
#include <mn/report/run_files.hpp>

namespace mn::report {

/// "mnist, 2026-11-25 08:00 UTC, n1 and 3 more: OUT": the job, when it started last, and its hosts, as far as run.jsonl
/// says so and all runs (at least one) share it.
[[nodiscard]] std::string title_of(const std::vector<Run>& runs);

/// The metric over iterations, or over epochs, which all entries of the log must then have.
[[nodiscard]] Curve curve_of(const Run& run, const std::string& metric, bool by_epoch = false);
/// Whether the metric has one value throughout each run, and more than one point in any.
[[nodiscard]] bool is_constant(const std::vector<Run>& runs, const std::string& metric);
/// "bytes_per_step" is shown as "MiB_per_step".
[[nodiscard]] std::string shown_name(const std::string& metric);

/// Command, hosts, end, and the last and best value of each metric.
[[nodiscard]] std::string summary_table(const std::vector<Run>& runs);
/// For one run, the options that differ from their defaults, and these; for several, the options that differ between
/// them.
[[nodiscard]] std::string options_that_differ(const std::vector<Run>& runs);
/// All other options; for one run only.
[[nodiscard]] std::string other_options(const std::vector<Run>& runs);

}  // namespace mn::report
