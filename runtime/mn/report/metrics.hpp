/// Values of a run's log: curves, best values, names and units.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mn/core/metric.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/run_files.hpp>

namespace mn::report {

/// Name of the metric of speed in the log, whatever the run's unit is.
inline constexpr const char* kSpeed = "images_per_second";

/// A metric's newest and best value.
struct MetricValues {
  double last = 0;
  double best = 0;      ///< best value; equals `last` if neither lower nor higher is better
  std::string best_at;  ///< "epoch 3" or "iteration 600" of `best`; empty if neither direction is better
  std::optional<std::pair<double, double>> point = {};  ///< the point of `best` in the curve
};

/// The name in the run's log. "validation/main/loss" means the loss of the main validation: if the log does not have
/// it, because the sets of validation have names, it is "validation/SET/main/loss" of the first set of --val.
[[nodiscard]] std::string logged_name(const Run& run, const std::string& metric);
/// The inverse of logged_name(), to compare runs whose main sets have other names. Keeps the names of other metrics.
[[nodiscard]] std::string common_name(const Run& run, const std::string& metric);

/// Whether each report of every run has an epoch. Then epochs are a common scale for runs with different batch sizes.
[[nodiscard]] bool count_epochs(const std::vector<Run>& runs);
/// The points of the metric, by its logged_name(), over iterations; with `by_epoch`, over epochs, which all log entries
/// must have.
[[nodiscard]] std::vector<std::pair<double, double>> points_of(const Run& run, const std::string& metric,
                                                               bool by_epoch);
/// The newest and the best value of the metric; no value if the log has no number of this name.
[[nodiscard]] std::optional<MetricValues> values_of(const Run& run, const std::string& metric, bool by_epoch = false);
/// True if some run has more than one point of the metric, but the metric changes in no run.
[[nodiscard]] bool is_constant(const std::vector<Run>& runs, const std::string& metric);

/// Whether lower or higher values of a metric are better. --monitor-better tells for the metric of --monitor, and the
/// name for all other metrics; no value if the name does not tell.
[[nodiscard]] std::optional<Better> better_in(const Run& run, const std::string& metric);
/// The metric that tells how good the run is, the first of these that the log has: the metric of --monitor if it is no
/// loss, a validation metric that is no loss, the validation loss, a metric of training. The main validation comes
/// before others. Empty if the log has no metric of which lower or higher values are better.
[[nodiscard]] std::string main_metric(const Run& run);
/// Whether a validation reports the metric.
[[nodiscard]] bool is_validated(const std::string& metric);

/// The name of the metric on the page: "validation loss" for "validation/main/loss", "validation a loss" for
/// "validation/a/main/loss", "learning rate" for "lr", "images/s" (in the run's unit) for kSpeed, "MiB per step" for
/// "bytes_per_step".
[[nodiscard]] std::string shown_name(const Run& run, const std::string& metric);
/// The name of the metric in a comparison. Where the runs' names differ, it has no name of a set and no unit:
/// "validation loss", "speed".
[[nodiscard]] std::string shown_name(const std::vector<Run>& runs, const std::string& metric);
/// Samples, images or tokens per second over all ranks: the median of the reports, or 0 if no report has a speed.
[[nodiscard]] double speed_of(const Run& run);
/// The unit of speed_of(): "samples", "images", "tokens".
[[nodiscard]] std::string unit_of(const Run& run);

}  // namespace mn::report
