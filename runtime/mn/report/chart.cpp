#include <mn/report/chart.hpp>

#include <algorithm>
#include <cmath>

#include <mn/core/classic_stream.hpp>
#include <mn/report/axes.hpp>
#include <mn/report/format.hpp>

namespace mn::report {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr std::size_t kMaxPoints = 500;    // largest number of points of a curve; a page shows no more
constexpr std::size_t kSmoothedFrom = 40;  // curves with fewer points get no moving average
constexpr double kLogFrom = 5;             // largest / smallest value from which the axis is logarithmic

/// Returns the curves as they are drawn. Points with NaN or infinity are dropped, because they have no place on an
/// axis; the page lists them among its findings. A long curve keeps only some points, to keep the page small.
std::vector<Curve> shown_curves(const std::vector<Curve>& curves) {
  std::vector<Curve> shown = curves;
  for (Curve& curve : shown) {
    std::erase_if(curve.points,
                  [](const auto& each) { return !std::isfinite(each.first) || !std::isfinite(each.second); });
    const std::size_t stride = curve.points.size() / kMaxPoints + 1;
    if (stride == 1) continue;
    const auto last = curve.points.back();
    for (std::size_t i = 0; i * stride < curve.points.size(); ++i) curve.points[i] = curve.points[i * stride];
    curve.points.resize((curve.points.size() - 1) / stride + 1);
    if (curve.points.back() != last) curve.points.push_back(last);
  }
  std::erase_if(shown, [](const Curve& curve) { return curve.points.empty(); });
  return shown;
}

/// Whether the curve goes up and down too often to show a trend.
bool is_noisy(const Points& points) {
  std::size_t turns = 0;
  for (std::size_t i = 2; i < points.size(); ++i) {
    const double before = points[i - 1].second - points[i - 2].second, after = points[i].second - points[i - 1].second;
    if (before * after < 0) ++turns;
  }
  return points.size() >= kSmoothedFrom && 4 * turns > points.size();
}

std::string path_of(const Axes& axes, const Points& points) {
  OutText path;
  path.precision(5);
  for (const auto& [x, y] : points) path << (path.tellp() == 0 ? 'M' : 'L') << axes.left(x) << ' ' << axes.top(y);
  return path.str();
}

std::string color_of(const Curve& curve) {
  return std::to_string(curve.color == kGray ? kGray : curve.color % kColors);
}

/// The points of a curve for the page's script, "x,y,X,Y;…": x and y in pixels, X and Y as texts.
std::string values_of(const Axes& axes, const Curve& curve) {
  OutText text;
  text.precision(5);
  for (const auto& [x, y] : curve.points) {
    text << axes.left(x) << ',' << axes.top(y) << ',' << short_number(x) << ',' << short_number(y) << ';';
  }
  return text.str();
}

void draw_curve(std::ostream& svg, const Axes& axes, const Curve& curve) {
  const std::string color = color_of(curve);
  const bool smooth = curve.smooth && is_noisy(curve.points);
  svg << "<g class='curve' data-name='" << escape_html(curve.name) << "' data-color='" << color << "' data-run='"
      << escape_html(curve.run) << "' data-values='" << values_of(axes, curve) << "'><path class='c" << color
      << (smooth ? " raw" : "") << (curve.dashed ? " dashed" : "") << "' d='" << path_of(axes, curve.points)
      << "'><title>" << escape_html(curve.name) << "</title></path>";
  if (smooth) svg << "<path class='c" << color << "' d='" << path_of(axes, smoothed(curve.points)) << "'/>";
  if (curve.points.size() == 1) {
    svg << "<circle class='m" << color << "' r='3' cx='" << axes.left(curve.points[0].first) << "' cy='"
        << axes.top(curve.points[0].second) << "'/>";
  }
  if (curve.marked) {
    const double x = axes.left(curve.marked->first), y = axes.top(curve.marked->second);
    const bool is_right = x > kChartWidth * 0.7, is_low = y > kChartHeight - kChartBottom - 22;
    svg << "<circle class='c" << color << "' r='5' cx='" << x << "' cy='" << y << "'/><text class='mark' x='"
        << x + (is_right ? -4 : 4) << "' y='" << y + (is_low ? -11 : 20) << "' text-anchor='"
        << (is_right ? "end" : "start") << "'>" << escape_html(curve.mark) << "</text>";
  }
  svg << "</g>";
}

void draw_svg(std::ostream& html, const Chart& chart, const std::vector<Curve>& curves, bool log) {
  const Axes axes(curves, log);
  html << "<svg class='" << (log ? "log" : "linear") << "' viewBox='0 0 " << kChartWidth << ' ' << kChartHeight
       << "' role='img' data-x='" << escape_html(chart.x_label) << "'><title>" << escape_html(chart.title)
       << "</title>";
  axes.draw(html, chart.x_label);
  for (const Curve& curve : curves) draw_curve(html, axes, curve);
  html << "</svg>";
}

}  // namespace

Points smoothed(const Points& points) {
  const double keep = 1 - 1 / std::max(2.0, static_cast<double>(points.size()) / 25);
  Points result;
  double sum = 0, weight = 0;
  for (const auto& [x, y] : points) {
    sum = keep * sum + y;
    weight = keep * weight + 1;
    result.emplace_back(x, sum / weight);
  }
  return result;
}

std::string draw_chart(const Chart& chart) {
  const std::vector<Curve> curves = shown_curves(chart.curves);
  if (curves.empty()) return "";
  double least = curves[0].points[0].second, most = least;
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      least = std::min(least, y);
      most = std::max(most, y);
    }
  }
  const bool log = chart.can_be_log && least > 0;
  OutText html;
  html << "<figure><figcaption><span>" << escape_html(chart.title) << "</span>";
  if (log) {
    html << "<label><input type='checkbox' class='use-log'" << (most > kLogFrom * least ? " checked" : "")
         << ">log axis</label>";
  }
  html << "</figcaption>";
  draw_svg(html, chart, curves, false);
  if (log) draw_svg(html, chart, curves, true);
  if (chart.has_legend) {
    html << "<p class='legend'>";
    for (const Curve& curve : curves) {
      html << "<span class='l" << color_of(curve) << (curve.dashed ? " dashed" : "") << "'>" << escape_html(curve.name)
           << "</span> ";
    }
    html << "</p>";
  }
  html << "</figure>\n";
  return html.str();
}

}  // namespace mn::report
