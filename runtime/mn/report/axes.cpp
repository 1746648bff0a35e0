#include <mn/report/axes.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <mn/report/format.hpp>

namespace mn::report {

Axes::Axes(const std::vector<Curve>& curves, bool log) : log_(log) {
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

void Axes::widen(Range& range, double share) {
  const double size = range.most - range.least;
  const double margin = size > 0 ? size * share : (range.most != 0 ? std::abs(range.most) : 1) * 0.1;
  range = {range.least - margin, range.most + margin};
}

double Axes::scaled(double y) const { return log_ ? std::log10(y) : y; }

double Axes::left(double x) const {
  return kChartLeft + (x - x_.least) / (x_.most - x_.least) * (kChartWidth - kChartLeft - kChartRight);
}

double Axes::top(double y) const {
  const double height = kChartHeight - kChartTop - kChartBottom;
  return kChartHeight - kChartBottom - (scaled(y) - y_.least) / (y_.most - y_.least) * height;
}

/// The numbers beside an axis: all multiples of a step in the range, three to seven of them. The step is 1, 2 or 5
/// times a power of ten.
std::vector<double> Axes::ticks(const Range& range) {
  const double wanted = (range.most - range.least) / 7;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= wanted) step = factor * power;
  }
  std::vector<double> values;
  for (double number = std::ceil(range.least / step); number * step <= range.most; ++number) {
    values.push_back(number * step);  // adding up steps would miss 0 by rounding
  }
  return values;
}

std::vector<double> Axes::y_ticks() const {
  if (!log_) return ticks(y_);
  const double least = std::pow(10, y_.least), most = std::pow(10, y_.most);
  std::vector<double> values;
  const bool is_long = y_.most - y_.least > 3;  // powers of ten are enough then
  for (double power = std::floor(y_.least); power <= y_.most; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, power);
      if (value >= least && value <= most && (factor == 1 || !is_long)) values.push_back(value);
    }
  }
  return values.size() > 1 ? values : ticks({least, most});
}

void Axes::draw(std::ostream& svg, const std::string& x_label) const {
  const double floor = kChartHeight - kChartBottom;
  for (const double y : y_ticks()) {
    svg << "<path class='grid' d='M" << kChartLeft << ' ' << top(y) << 'H' << kChartWidth - kChartRight
        << "'/><text x='" << kChartLeft - 6 << "' y='" << top(y) + 4 << "' text-anchor='end'>" << short_number(y)
        << "</text>";
  }
  const bool is_short = x_.most - x_.least < 2;
  for (const double x : ticks(x_)) {
    if (x != std::floor(x) && !is_short) continue;  // a long axis shows whole epochs or iterations only
    svg << "<text x='" << left(x) << "' y='" << floor + 16 << "' text-anchor='middle'>" << short_number(x) << "</text>";
  }
  svg << "<path class='axis' d='M" << kChartLeft << ' ' << floor << 'H' << kChartWidth - kChartRight << "'/><text x='"
      << (kChartLeft + kChartWidth) / 2 << "' y='" << kChartHeight - 6 << "' text-anchor='middle'>"
      << escape_html(x_label) << "</text>";
}

}  // namespace mn::report
