/// Reads the values in a run's log: curves, best values, names and units.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mn/core/metric.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/run_files.hpp>

namespace mn::report {

/// The name of the speed in the log. The name is the same even if the run counts samples or tokens.
inline constexpr const char* kSpeed = "images_per_second";

/// The newest and the best value that a metric has in a run.
struct MetricValues {
  double last = 0;
  double best = 0;      ///< best value; equals `last` if neither lower nor higher is better
  std::string best_at;  ///< "epoch 3" or "iteration 600" of `best`; empty if neither direction is better
  std::optional<std::pair<double, double>> point = {};  ///< the point of `best` in the curve
};

/// Returns the name under which the run's log has a metric. An example is "validation/main/loss", the loss of the main
/// validation set. If all sets have names, the main set is the first set of --val, and the log has its loss as
/// "validation/SET/main/loss".
[[nodiscard]] std::string logged_name(const Run& run, const std::string& metric);
/// The inverse of logged_name(). If `metric` is a value of the main validation set, returns its name without the name
/// of the set, so that runs can be compared even if their main sets have different names. Otherwise returns `metric`.
[[nodiscard]] std::string common_name(const Run& run, const std::string& metric);

/// True if every report of every run has an epoch. Curves are then drawn over epochs, because epochs are comparable
/// even if the batch sizes differ.
[[nodiscard]] bool count_epochs(const std::vector<Run>& runs);
/// Returns the curve of a metric over the iterations. If `by_epoch` is true, the curve is over the epochs, and all
/// entries of the log must have an epoch.
[[nodiscard]] std::vector<std::pair<double, double>> points_of(const Run& run, const std::string& metric,
                                                               bool by_epoch);
/// Returns the newest and the best value of a metric. No value if the log has no number under this name.
[[nodiscard]] std::optional<MetricValues> values_of(const Run& run, const std::string& metric, bool by_epoch = false);
/// True if the metric never changes: its value is constant in each run, and at least one run has several values of it.
[[nodiscard]] bool is_constant(const std::vector<Run>& runs, const std::string& metric);

/// Returns whether lower or higher values of a metric are better. For the metric of --monitor, --monitor-better
/// decides; for every other metric, its name decides. No value if neither tells.
[[nodiscard]] std::optional<Better> better_in(const Run& run, const std::string& metric);
/// Returns the main metric, which shows how good the run is. It is the first of the following that the log has: the
/// metric of --monitor if this is no loss, a validation metric that is no loss, a validation loss, a metric of
/// training. Values of the main validation set come before values of all other sets. Empty if for no metric it is known
/// whether lower or higher values are better.
[[nodiscard]] std::string main_metric(const Run& run);
/// True if the metric comes from a validation set.
[[nodiscard]] bool is_validated(const std::string& metric);

/// Returns the name of the metric on the page: "validation loss" for "validation/main/loss", "validation a loss" for
/// "validation/a/main/loss", "learning rate" for "lr", "images/s" (in the run's unit) for kSpeed, "MiB per step" for
/// "bytes_per_step".
[[nodiscard]] std::string shown_name(const Run& run, const std::string& metric);
/// Returns the name of the metric in a comparison. If the runs differ in the name of a validation set or in a unit, the
/// result leaves it out.
[[nodiscard]] std::string shown_name(const std::vector<Run>& runs, const std::string& metric);
/// Returns how many samples, images or tokens all ranks together process in a second: the median of the reports.
/// Returns 0 if no report has a speed.
[[nodiscard]] double speed_of(const Run& run);

}  // namespace mn::report
