#include <mn/report/chart.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include <mn/core/classic_stream.hpp>
#include <mn/report/format.hpp>

namespace mn::report {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr std::size_t kMaxPoints = 500;    // a page shows at most so many points of a curve
constexpr std::size_t kSmoothedFrom = 40;  // curves with fewer points get no moving average
constexpr double kLogFrom = 5;             // the axis is logarithmic if largest / smallest value exceeds this

constexpr double kWidth = 560, kHeight = 300;  // size of a chart, in pixels
constexpr double kLeft = 56, kRight = 14, kTop = 12, kBottom = 40;

/// The axes of a chart: their ranges, the numbers beside them, and where a value lies on the page, in pixels.
class Axes {
 public:
  /// Shows all points of `curves`, at least one. With `log`, the y axis is logarithmic, and all y must be > 0.
  Axes(const std::vector<Curve>& curves, bool log) : log_(log) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    x_ = y_ = {kInfinity, -kInfinity};
    for (const Curve& curve : curves) {
      for (const auto& [x, y] : curve.points) {
        x_ = {std::min(x_.least, x), std::max(x_.most, x)};
        y_ = {std::min(y_.least, scaled(y)), std::max(y_.most, scaled(y))};
      }
    }
    widen(x_, 0.02);
    widen(y_, 0.06);
  }

  double left(double x) const { return kLeft + (x - x_.least) / (x_.most - x_.least) * (kWidth - kLeft - kRight); }

  double top(double y) const {
    const double height = kHeight - kTop - kBottom;
    return kHeight - kBottom - (scaled(y) - y_.least) / (y_.most - y_.least) * height;
  }

  void draw(std::ostream& svg, const std::string& x_label) const {
    const double floor = kHeight - kBottom;
    for (const double y : y_ticks()) {
      svg << "<path class='grid' d='M" << kLeft << ' ' << top(y) << 'H' << kWidth - kRight << "'/><text x='"
          << kLeft - 6 << "' y='" << top(y) + 4 << "' text-anchor='end'>" << short_number(y) << "</text>";
    }
    const bool is_short = x_.most - x_.least < 2;
    for (const double x : ticks(x_)) {
      if (x != std::floor(x) && !is_short) continue;  // a long axis shows only whole epochs or iterations
      svg << "<text x='" << left(x) << "' y='" << floor + 16 << "' text-anchor='middle'>" << short_number(x)
          << "</text>";
    }
    svg << "<path class='axis' d='M" << kLeft << ' ' << floor << 'H' << kWidth - kRight << "'/><text x='"
        << (kLeft + kWidth) / 2 << "' y='" << kHeight - 6 << "' text-anchor='middle'>" << escape_html(x_label)
        << "</text>";
  }

 private:
  struct Range {
    double least;
    double most;
  };
  [[nodiscard]] double scaled(double y) const { return log_ ? std::log10(y) : y; }

  static void widen(Range& range, double share) {
    const double size = range.most - range.least;
    const double margin = size > 0 ? size * share : (range.most != 0 ? std::abs(range.most) : 1) * 0.1;
    range = {range.least - margin, range.most + margin};
  }

  /// Returns the numbers to show beside an axis: all multiples of a step that lie in the range. The step is 1, 2 or 5
  /// times a power of ten, chosen so that there are about three to seven numbers.
  static std::vector<double> ticks(const Range& range) {
    const double wanted = (range.most - range.least) / 7;
    const double power = std::pow(10, std::floor(std::log10(wanted)));
    double step = 10 * power;
    for (const double factor : {5.0, 2.0, 1.0}) {
      if (factor * power >= wanted) step = factor * power;
    }
    std::vector<double> values;
    for (double number = std::ceil(range.least / step); number * step <= range.most; ++number) {
      values.push_back(number * step);  // not a sum of steps, because rounding would miss 0
    }
    return values;
  }

  std::vector<double> y_ticks() const {
    if (!log_) return ticks(y_);
    const double least = std::pow(10, y_.least), most = std::pow(10, y_.most);
    std::vector<double> values;
    const bool is_long = y_.most - y_.least > 3;  // then powers of ten are enough
    for (double power = std::floor(y_.least); power <= y_.most; ++power) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = factor * std::pow(10, power);
        if (value >= least && value <= most && (factor == 1 || !is_long)) values.push_back(value);
      }
    }
    return values.size() > 1 ? values : ticks({least, most});
  }

  bool log_;
  Range x_;
  Range y_;  // range of y; if log_, of its logarithm
};

/// Leaves out NaN and infinity, which are among the findings, and some points of long curves, to keep the page small.
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

/// True if the curve goes up and down so often that no trend can be seen.
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

/// For the page's script: "x,y,X,Y;…", where x and y are in pixels, and X and Y are the texts of the values.
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
    const bool is_right = x > kWidth * 0.7, is_low = y > kHeight - kBottom - 22;
    svg << "<circle class='c" << color << "' r='5' cx='" << x << "' cy='" << y << "'/><text class='mark' x='"
        << x + (is_right ? -4 : 4) << "' y='" << y + (is_low ? -11 : 20) << "' text-anchor='"
        << (is_right ? "end" : "start") << "'>" << escape_html(curve.mark) << "</text>";
  }
  svg << "</g>";
}

void draw_svg(std::ostream& html, const Chart& chart, const std::vector<Curve>& curves, bool log) {
  const Axes axes(curves, log);
  html << "<svg class='" << (log ? "log" : "linear") << "' viewBox='0 0 " << kWidth << ' ' << kHeight
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
