/// Draws the curves of the log into OUT/plot.png, by gnuplot.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

/// A panel of the plot: the title of the panel, and the names of the log's values that the panel shows.
using PlotPanel = std::pair<std::string, std::vector<std::string>>;

/// Rank 0 draws the plot after a report, once an epoch by default and at most every ten seconds, and at the end. A long
/// curve shows about 1000 of its points. Training never waits for gnuplot: while it still draws a plot, the next plot
/// is skipped. Without gnuplot, there is one warning and no plot.
class PlotReport final : public Extension {
 public:
  /// `log` belongs to the same trainer, and must outlive this extension. `x` names the log's value on the x axis.
  /// `program` is the command that runs gnuplot.
  explicit PlotReport(const LogReport& log,
                      std::vector<PlotPanel> panels = {{"loss", {"main/loss", "validation/main/loss"}},
                                                       {"accuracy", {"main/accuracy", "validation/main/accuracy"}}},
                      std::string x = "epoch", std::string program = "gnuplot");
  ~PlotReport() override;

  [[nodiscard]] std::string name() const override { return "PlotReport"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] int priority() const override { return kPriorityReport; }
  void initialize(Trainer& trainer) override;
  void run(Trainer& trainer) override;
  /// Waits at most a few seconds until gnuplot has drawn the last plot.
  void finalize(Trainer& trainer) override;

  /// Adds the points of an entry of OUT/log.
  void add(const nlohmann::json& entry);
  /// Adds the points of all entries of OUT/log that were not added yet.
  void add_new();
  /// Returns the gnuplot commands that draw all points into the PNG file `png`. Empty if there is no point.
  [[nodiscard]] std::string script(const std::string& png) const;

 private:
  using Clock = std::chrono::steady_clock;

  /// The points that are kept of a curve: every `stride`-th point, and the last point.
  struct Curve {
    std::vector<std::pair<double, double>> points;
    std::pair<double, double> last;
    std::int64_t stride = 1;
    std::int64_t count = 0;  // number of points added so far

    void add(double x, double y);
    [[nodiscard]] std::string text() const;
  };

  void draw(const Trainer& trainer);
  bool reap(const Trainer& trainer);
  void give_up(const std::string& why);
  void fail(const std::string& why);

  const LogReport& log_;
  std::vector<PlotPanel> panels_;
  std::string x_;
  std::string program_;
  std::string title_;                    // title of the whole plot, from initialize() on
  std::map<std::string, Curve> curves_;  // curves, by the name of the log's value
  pid_t child_ = -1;
  Clock::time_point begun_ = {};  // when the last plot was begun
  std::int64_t read_ = 0;         // number of log entries read so far
  std::int64_t drawn_ = 0;        // number of log entries in the last plot
  bool has_failed_ = false;
  bool enabled_ = true;
};

}  // namespace mn::extensions
