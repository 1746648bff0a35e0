/// A curve of a chart.
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

}  // namespace mn::report
