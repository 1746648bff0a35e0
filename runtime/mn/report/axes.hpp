/// The axes of a chart: their ranges, their numbers, and the place of a value on the page in pixels.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include <mn/report/curve.hpp>

namespace mn::report {

inline constexpr double kChartWidth = 560, kChartHeight = 300;
inline constexpr double kChartLeft = 56, kChartRight = 14, kChartTop = 12, kChartBottom = 40;

class Axes {
 public:
  /// Axes for all points of `curves`; there must be at least one point. If `log`, the y axis is logarithmic, and all y
  /// must be > 0.
  Axes(const std::vector<Curve>& curves, bool log);

  [[nodiscard]] double left(double x) const;
  [[nodiscard]] double top(double y) const;
  /// The values that are written beside the y axis.
  [[nodiscard]] std::vector<double> y_ticks() const;
  /// Draws the grid, the axes and their numbers and labels.
  void draw(std::ostream& svg, const std::string& x_label) const;

 private:
  struct Range {
    double least;
    double most;
  };
  [[nodiscard]] double scaled(double y) const;
  static void widen(Range& range, double share);
  [[nodiscard]] static std::vector<double> ticks(const Range& range);

  bool log_;
  Range x_;
  Range y_;  // range of y, or of its logarithm
};

}  // namespace mn::report
