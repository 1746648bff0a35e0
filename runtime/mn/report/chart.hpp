/// Draws curves as SVG, which also holds their values for the page's script.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mn::report {

inline constexpr int kColors = 8;      ///< number of colors of the style
inline constexpr int kGray = kColors;  ///< color of less important curves

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< (x, y), in ascending order of x
  int color = 0;                                  ///< index of the style's color, modulo kColors; or kGray
  bool dashed = false;
  bool smooth = false;    ///< also draws a moving average if the curve has many points and much noise
  std::string run = {};   ///< the curve is highlighted together with the row of this run in a table
  std::string mark = {};  ///< text at the point `marked`, which gets a ring
  std::optional<std::pair<double, double>> marked = {};
};

struct Chart {
  std::string title;
  std::string x_label;
  std::vector<Curve> curves;
  bool can_be_log = false;  ///< offers a logarithmic axis, shown first if values span more than a factor 5
  bool has_legend = true;
};

/// Draws a chart with axes, a legend and a title, as an HTML figure. Empty if no curve has a finite point.
[[nodiscard]] std::string draw_chart(const Chart& chart);

/// The moving average of a curve. Newer points count more, and the average begins at the first points, not at 0.
[[nodiscard]] std::vector<std::pair<double, double>> smoothed(const std::vector<std::pair<double, double>>& points);

}  // namespace mn::report
