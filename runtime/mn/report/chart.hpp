/// Draws curves as SVG. The SVG also holds the values of the curves, for the page's script.
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
  int color = 0;                                  ///< index of one of the style's colors, modulo kColors; or kGray
  bool dashed = false;
  bool smooth = false;    ///< if the curve has many points and much noise, also draw a moving average
  std::string run = {};   ///< run of the curve: its row in the table is highlighted together with the curve
  std::string mark = {};  ///< text at the point `marked`, around which there is a ring
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

/// Returns the moving average of a curve. It starts with the first value, not with 0, and newer points count more.
[[nodiscard]] std::vector<std::pair<double, double>> smoothed(const std::vector<std::pair<double, double>>& points);

}  // namespace mn::report
