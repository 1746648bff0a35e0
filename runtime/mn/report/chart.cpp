#include <mn/report/chart.hpp>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iterator>
#include <limits>

#include <mn/core/classic_stream.hpp>

namespace mn::report {
namespace {

constexpr double kWidth = 560, kHeight = 300, kLeft = 64, kRight = 12, kTop = 10, kBottom = 40;
constexpr std::size_t kMaxPoints = 500;  // per curve: more than its pixels can show

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  void widen() {
    const double margin = most > least ? (most - least) * 0.04 : (most != 0 ? std::abs(most) : 1) * 0.1;
    least -= margin;
    most += margin;
  }
};

/// A step of 1, 2 or 5 times a power of ten: about five steps in the range.
double tick_step(const Range& range) {
  const double wanted = (range.most - range.least) / 5;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= wanted) return factor * power;
  }
  return 10 * power;
}

std::vector<double> ticks(const Range& range) {
  const double step = tick_step(range);
  std::vector<double> values;
  for (double number = std::ceil(range.least / step); number * step <= range.most; ++number) {
    values.push_back(number * step);  // a product: summing steps would miss 0
  }
  return values;
}

class Axes {
 public:
  Axes(Range x, Range y) : x_(x), y_(y) {}

  [[nodiscard]] double left(double x) const {
    return kLeft + (x - x_.least) / (x_.most - x_.least) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double top(double y) const {
    return kHeight - kBottom - (y - y_.least) / (y_.most - y_.least) * (kHeight - kTop - kBottom);
  }

  void draw(std::ostream& svg, const std::string& x_label) const {
    const double floor = kHeight - kBottom;
    for (const double y : ticks(y_)) {
      svg << "<path class='grid' d='M" << kLeft << ' ' << top(y) << 'H' << kWidth - kRight << "'/><text x='"
          << kLeft - 6 << "' y='" << top(y) + 4 << "' text-anchor='end'>" << short_number(y) << "</text>";
    }
    for (const double x : ticks(x_)) {
      svg << "<text x='" << left(x) << "' y='" << floor + 16 << "' text-anchor='middle'>" << short_number(x)
          << "</text>";
    }
    svg << "<path class='axis' d='M" << kLeft << ' ' << kTop << 'V' << floor << 'H' << kWidth - kRight << "'/><text x='"
        << (kLeft + kWidth) / 2 << "' y='" << kHeight - 6 << "' text-anchor='middle'>" << escape_html(x_label)
        << "</text>";
  }

 private:
  Range x_;
  Range y_;
};

void draw_curve(std::ostream& svg, const Axes& axes, const Curve& curve) {
  // A curve of many points is thinned, so that the page of a long run stays small.
  const std::size_t stride = curve.points.size() / kMaxPoints + 1;
  const int color = curve.color % kColors;
  OutText path, marks;
  path.precision(6);
  for (std::size_t i = 0; i < curve.points.size(); i += stride) {
    const auto& [x, y] = curve.points[i];
    path << (path.tellp() == 0 ? 'M' : 'L') << axes.left(x) << ' ' << axes.top(y);
    if (curve.points.size() > 60) continue;  // marks would touch
    marks << "<circle class='m" << color << "' r='2.5' cx='" << axes.left(x) << "' cy='" << axes.top(y) << "'><title>"
          << escape_html(curve.name) << ": " << short_number(y) << " at " << short_number(x) << "</title></circle>";
  }
  svg << "<path class='c" << color << (curve.dashed ? " dashed" : "") << "' d='" << path.str() << "'><title>"
      << escape_html(curve.name) << "</title></path>" << marks.str();
}

std::vector<Curve> finite_parts(const std::vector<Curve>& curves) {
  std::vector<Curve> parts = curves;
  for (Curve& curve : parts) {
    // NaN and infinity have no position on an axis; the page lists them among its findings.
    std::erase_if(curve.points,
                  [](const auto& point) { return !std::isfinite(point.first) || !std::isfinite(point.second); });
  }
  std::erase_if(parts, [](const Curve& curve) { return curve.points.empty(); });
  return parts;
}

}  // namespace

std::string draw_chart(const std::string& title, const std::string& x_label, const std::vector<Curve>& curves) {
  const std::vector<Curve> shown = finite_parts(curves);
  if (shown.empty()) return "";
  Range x, y;
  for (const Curve& curve : shown) {
    for (const auto& point : curve.points) {
      x.add(point.first);
      y.add(point.second);
    }
  }
  x.widen();
  y.widen();
  const Axes axes(x, y);
  OutText svg;
  svg << "<figure><figcaption>" << escape_html(title) << "</figcaption><svg viewBox='0 0 " << kWidth << ' ' << kHeight
      << "' role='img'><title>" << escape_html(title) << "</title>";
  axes.draw(svg, x_label);
  for (const Curve& curve : shown) draw_curve(svg, axes, curve);
  svg << "</svg><p class='legend'>";
  for (const Curve& curve : shown) {
    svg << "<span class='l" << curve.color % kColors << (curve.dashed ? " dashed" : "") << "'>"
        << escape_html(curve.name) << "</span> ";
  }
  svg << "</p></figure>\n";
  return svg.str();
}

std::string escape_html(std::string_view text) {
  constexpr std::pair<char, const char*> kEscapes[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string escaped;
  for (const char c : text) {
    const auto* found = std::ranges::find(kEscapes, c, &std::pair<char, const char*>::first);
    escaped += found != std::end(kEscapes) ? found->second : std::string(1, c);
  }
  return escaped;
}

std::string short_number(double value) {
  OutText text;
  if (value == 0) value = 0;  // not −0
  const double size = std::abs(value);
  if (size >= 1e4 && size < 1e9) {
    text << std::fixed << std::setprecision(0) << value;
  } else {
    text << std::setprecision(4) << value;
  }
  return text.str();
}

}  // namespace mn::report
