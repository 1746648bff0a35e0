/// Values of a run's log: curves, best values, names and units.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mn/core/metric.hpp>
#include <mn/report/chart.hpp>
#include <mn/report/run_files.hpp>

namespace mn::report {

/// A metric's newest and best value.
struct MetricValues {
  double last = 0;
  double best = 0;      ///< equals `last` if the metric has no direction
  std::string best_at;  ///< "epoch 3" or "iteration 600"; empty if the metric has no direction
  std::optional<std::pair<double, double>> point = {};  ///< of `best` in curve_of()
};

/// Whether each report of every run has an epoch: epochs then compare runs with different batch sizes.
[[nodiscard]] bool count_epochs(const std::vector<Run>& runs);
/// The points of the metric over iterations; with `by_epoch`, over epochs, which all log entries must have.
[[nodiscard]] std::vector<std::pair<double, double>> points_of(const Run& run, const std::string& metric,
                                                               bool by_epoch);
/// The newest and the best value; no value if the log has no number of this name.
[[nodiscard]] std::optional<MetricValues> values_of(const Run& run, const std::string& metric, bool by_epoch = false);
/// Whether the metric never changes in any run, and some run has more than one point.
[[nodiscard]] bool is_constant(const std::vector<Run>& runs, const std::string& metric);

/// The direction in which a metric is better. For the metric of --monitor, --monitor-better gives the direction; for
/// all other metrics, the name does.
[[nodiscard]] std::optional<Better> better_in(const Run& run, const std::string& metric);
/// The metric that says how good the run is: --monitor's unless that is a loss, else a validated metric other than a
/// loss, else the validated loss, else a metric of training. Empty if the log has no metric with a direction.
[[nodiscard]] std::string main_metric(const Run& run);
/// The metric of training that belongs to a validated one: "main/loss" of "validation/main/loss". Empty if there is
/// none.
[[nodiscard]] std::string training_metric(const std::string& metric);

/// The metric's name for people: "validation loss" of "validation/main/loss", "learning rate" of "lr", "images/s" of
/// "images_per_second" (in the run's unit), "MiB per step" of "bytes_per_step".
[[nodiscard]] std::string shown_name(const Run& run, const std::string& metric);
/// Samples, images or tokens per second over all ranks: the median of the reports. 0 if the log has none.
[[nodiscard]] double speed_of(const Run& run);
/// The unit of speed_of(): "samples", "images", "tokens".
[[nodiscard]] std::string unit_of(const Run& run);

}  // namespace mn::report
