/// The values in a run's log: curves, best values, names and units.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mn/core/metric.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/run_files.hpp>

namespace mn::report {

/// The name of the speed in the log, even if the run counts samples or tokens.
inline constexpr const char* kSpeed = "images_per_second";

/// The newest and the best value of a metric in a run.
struct MetricValues {
  double last = 0;
  double best = 0;      ///< best value; equals `last` if neither lower nor higher is better
  std::string best_at;  ///< "epoch 3" or "iteration 600" of `best`; empty if neither direction is better
  std::optional<std::pair<double, double>> point = {};  ///< the point of `best` in the curve
};

/// Under which name the run's log has a metric. "validation/main/loss" stands for the loss of the main validation set:
/// if all sets have names, the log has it as "validation/SET/main/loss" of the first set of --val.
[[nodiscard]] std::string logged_name(const Run& run, const std::string& metric);
/// The inverse of logged_name(): turns the name of a value of the main validation set into a name that all runs have,
/// and keeps every other name. With it, runs can be compared whose main sets have different names.
[[nodiscard]] std::string common_name(const Run& run, const std::string& metric);

/// True if every report has an epoch: then curves are drawn over epochs, in which other batch sizes are comparable.
[[nodiscard]] bool count_epochs(const std::vector<Run>& runs);
/// A metric's curve over the iterations or, if `by_epoch`, over the epochs, which all log entries must then have.
[[nodiscard]] std::vector<std::pair<double, double>> points_of(const Run& run, const std::string& metric,
                                                               bool by_epoch);
/// The newest and the best value of a metric. No value if the log has no number of this name.
[[nodiscard]] std::optional<MetricValues> values_of(const Run& run, const std::string& metric, bool by_epoch = false);
/// Whether the metric never changes: some run has several points of it, and its value is constant in each run.
[[nodiscard]] bool is_constant(const std::vector<Run>& runs, const std::string& metric);

/// Whether lower or higher values of a metric are better. For the metric of --monitor, --monitor-better says it; for
/// every other metric, the name does. No value if neither says it.
[[nodiscard]] std::optional<Better> better_in(const Run& run, const std::string& metric);
/// The metric that shows how good the run is, the first of these in the log: the metric of --monitor if it is no loss,
/// a validation metric that is no loss, a validation loss, a metric of training; first those of the main validation
/// set. Empty if for no metric it is known whether lower or higher values are better.
[[nodiscard]] std::string main_metric(const Run& run);
/// Whether the metric comes from a validation set.
[[nodiscard]] bool is_validated(const std::string& metric);

/// How the page calls the metric: "validation loss" for "validation/main/loss", "validation a loss" for
/// "validation/a/main/loss", "learning rate" for "lr", "images/s" (in the run's unit) for kSpeed, "MiB per step" for
/// "bytes_per_step".
[[nodiscard]] std::string shown_name(const Run& run, const std::string& metric);
/// How a comparison calls the metric: without a validation set's name or a unit that differs between the runs.
[[nodiscard]] std::string shown_name(const std::vector<Run>& runs, const std::string& metric);
/// Samples, images or tokens of all ranks in a second: the median of the reports; 0 if none has a speed.
[[nodiscard]] double speed_of(const Run& run);

}  // namespace mn::report
