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

/// Returns a metric's name in the run's log. If all validation sets have names, "validation/main/loss" is the loss of
/// the first set of --val, logged as "validation/SET/main/loss".
[[nodiscard]] std::string logged_name(const Run& run, const std::string& metric);
/// The inverse of logged_name(): leaves the main set's name out, so that runs with other sets can be compared.
[[nodiscard]] std::string common_name(const Run& run, const std::string& metric);

/// True if every report has an epoch. Epochs are comparable between runs even if the batch sizes differ.
[[nodiscard]] bool count_epochs(const std::vector<Run>& runs);
/// Returns a metric's curve over iterations or, `by_epoch`, over epochs, which all entries of the log must then have.
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
/// The name in a comparison leaves out the validation set or unit in which the runs differ.
[[nodiscard]] std::string shown_name(const std::vector<Run>& runs, const std::string& metric);
/// Returns the median of the reports' speeds, over all ranks and in the run's unit; 0 if no report has a speed.
[[nodiscard]] double speed_of(const Run& run);

}  // namespace mn::report
