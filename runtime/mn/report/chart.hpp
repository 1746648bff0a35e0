/// Curves as SVG. The page's script reads the values of a curve from the SVG, to show those under the pointer.
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
  bool can_be_log = false;  ///< offers a logarithmic axis, and begins with it if the values span more than a factor 5
  bool has_legend = true;
};

/// A figure element with axes, a legend and a title; empty if no curve has a finite point.
[[nodiscard]] std::string draw_chart(const Chart& chart);

/// The average of a curve over its newest points, which count most; without the bias of the first points.
[[nodiscard]] std::vector<std::pair<double, double>> smoothed(const std::vector<std::pair<double, double>>& points);

}  // namespace mn::report
