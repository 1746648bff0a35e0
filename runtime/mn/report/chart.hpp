/// Curves as SVG. The page's script reads the values of the curves from the SVG, and shows the values at the pointer's
/// position.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <mn/report/curve.hpp>

namespace mn::report {

struct Chart {
  std::string title;
  std::string x_label;
  std::vector<Curve> curves;
  bool can_be_log = false;  ///< offers a logarithmic axis, shown first if values span more than a factor 5
  bool has_legend = true;
};

/// A figure element with axes, a legend and a title; empty if no curve has a finite point.
[[nodiscard]] std::string draw_chart(const Chart& chart);

/// The moving average of a curve, in which the newest points count most. The average does not begin at 0, but at the
/// first points.
[[nodiscard]] std::vector<std::pair<double, double>> smoothed(const std::vector<std::pair<double, double>>& points);

}  // namespace mn::report
