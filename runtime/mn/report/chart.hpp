/// Draws curves as SVG. The page's script finds the values of the curves in the SVG, and shows those at the pointer's
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

/// Draws a chart with axes, a legend and a title, as an HTML figure. Empty if no curve has a finite point.
[[nodiscard]] std::string draw_chart(const Chart& chart);

/// The moving average of a curve, in which newer points count more. The average begins at the first points, and not at
/// 0.
[[nodiscard]] std::vector<std::pair<double, double>> smoothed(const std::vector<std::pair<double, double>>& points);

}  // namespace mn::report
