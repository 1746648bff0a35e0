/// OUT/plot.png: curves of the log, drawn by gnuplot.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>

namespace mn::extensions {

/// One panel: its title, and the values of the log that it shows.
using PlotPanel = std::pair<std::string, std::vector<std::string>>;

/// Rank 0 draws after each report, once an epoch, unless another trigger is given. gnuplot runs beside training, which
/// never waits for it: a plot that is not done when the next one is due causes that one to be skipped. Without gnuplot
/// there is one warning and no plot. Add it after the log.
class PlotReport final : public Extension {
 public:
  /// `log` is the same trainer's and must live as long as this; `x` is one of its values, `program` runs as gnuplot.
  explicit PlotReport(const LogReport& log,
                      std::vector<PlotPanel> panels = {{"loss", {"main/loss", "validation/main/loss"}},
                                                       {"accuracy", {"main/accuracy", "validation/main/accuracy"}}},
                      std::string x = "epoch", std::string program = "gnuplot");
  ~PlotReport() override;

  [[nodiscard]] std::string name() const override { return "PlotReport"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  void run(Trainer& trainer) override;
  /// Waits for the last plot, for a few seconds at most.
  void finalize(Trainer& trainer) override;

  /// The gnuplot commands that draw `entries` into the PNG file `png`; empty if no panel has a point.
  [[nodiscard]] std::string script(const std::vector<nlohmann::json>& entries, const std::string& png) const;

 private:
  [[nodiscard]] std::string points_of(const std::vector<nlohmann::json>& entries, const std::string& name) const;
  void draw(const Trainer& trainer);
  bool reap(const Trainer& trainer);
  void give_up(const std::string& why);

  const LogReport& log_;
  std::vector<PlotPanel> panels_;
  std::string x_;
  std::string program_;
  pid_t child_ = -1;
  std::size_t drawn_ = 0;  // entries
  bool enabled_ = true;
};

}  // namespace mn::extensions
