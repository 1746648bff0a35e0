/// Curves as SVG.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mn::report {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x, y; x ascends
  int color = 0;                                  ///< index of the style's color, modulo kColors
  bool dashed = false;
};

/// A figure element with axes, a legend and a title; empty if no curve has a finite point.
[[nodiscard]] std::string draw_chart(const std::string& title, const std::string& x_label,
                                     const std::vector<Curve>& curves);

/// `text` escaped for HTML text and attributes.
[[nodiscard]] std::string escape_html(std::string_view text);
/// The number with four significant digits, or as a whole number.
[[nodiscard]] std::string short_number(double value);

inline constexpr int kColors = 8;  ///< number of colors of the style

}  // namespace mn::report
