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
  double best = 0;      ///< best value; equals `last` if neither lower nor higher is better
  std::string best_at;  ///< "epoch 3" or "iteration 600" of `best`; empty if neither direction is better
  std::optional<std::pair<double, double>> point = {};  ///< the point of `best` in the curve
};

/// Whether each report of every run has an epoch. Then epochs are a common scale for runs with different batch sizes.
[[nodiscard]] bool count_epochs(const std::vector<Run>& runs);
/// The points of the metric over iterations; with `by_epoch`, over epochs, which all log entries must have.
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
/// loss, a validation metric that is no loss, the validation loss, a metric of training. Empty if the log has no metric
/// of which lower or higher values are better.
[[nodiscard]] std::string main_metric(const Run& run);
/// The training metric for a validation metric: "main/loss" for "validation/main/loss". Empty if there is no such
/// metric.
[[nodiscard]] std::string training_metric(const std::string& metric);

/// The name of the metric on the page: "validation loss" for "validation/main/loss", "learning rate" for "lr",
/// "images/s" (in the run's unit) for "images_per_second", "MiB per step" for "bytes_per_step".
[[nodiscard]] std::string shown_name(const Run& run, const std::string& metric);
/// Samples, images or tokens per second over all ranks: the median of the reports, or 0 if no report has a speed.
[[nodiscard]] double speed_of(const Run& run);
/// The unit of speed_of(): "samples", "images", "tokens".
[[nodiscard]] std::string unit_of(const Run& run);

}  // namespace mn::report
