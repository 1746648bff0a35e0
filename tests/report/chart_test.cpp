// Curves and numbers of a page.
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/report/chart.hpp>
#include <mn/report/format.hpp>

namespace mn::report {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string chart_of(std::vector<std::pair<double, double>> points, bool can_be_log = false, bool smooth = false) {
  return draw_chart({.title = "t",
                     .x_label = "x",
                     .curves = {{.name = "a", .points = std::move(points), .smooth = smooth}},
                     .can_be_log = can_be_log});
}

TEST(ChartTest, LeavesOutWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(chart_of({{1, nan}}), "");
  EXPECT_EQ(chart_of({}), "");
  const std::string one = chart_of({{1, 5}, {2, nan}});
  EXPECT_THAT(one, HasSubstr(",1,5;"));
  EXPECT_THAT(one, Not(HasSubstr("nan")));
}

TEST(ChartTest, ZeroHasNoSign) {
  const std::string chart = chart_of({{0, -0.5}, {100, 0.5}});
  EXPECT_THAT(chart, HasSubstr(">0</text>"));
  EXPECT_THAT(chart, Not(HasSubstr(">-0</text>")));
}

TEST(ChartTest, ALogarithmicAxisNeedsPositiveValuesAndIsUsedForAWideRange) {
  EXPECT_THAT(chart_of({{0, 0}, {1, 9}}, true), Not(HasSubstr("log axis")));
  EXPECT_THAT(chart_of({{0, 1}, {1, 3}}, true), HasSubstr("class='use-log'>log axis"));
  const std::string wide = chart_of({{0, 1000}, {1, 1}}, true);
  EXPECT_THAT(wide, HasSubstr("class='use-log' checked>log axis"));
  EXPECT_THAT(wide, HasSubstr("<svg class='log'"));
}

TEST(ChartTest, ALongCurveIsSmoothedAndThinnedButEndsWithItsLastPoint) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 2001; ++i) points.emplace_back(i, i % 2);
  points.emplace_back(2001, 7);
  const std::string chart = chart_of(points, false, true);
  EXPECT_THAT(chart, HasSubstr("class='c0 raw'"));
  EXPECT_THAT(chart, HasSubstr(",2001,7;"));
  EXPECT_LT(chart.size(), 60'000U);
  const auto smooth = smoothed({{0, 1}, {1, 1}, {2, 1}});
  EXPECT_EQ(smooth.back().second, 1) << "the average of equal values";
}

TEST(FormatTest, NumbersAreForPeople) {
  EXPECT_EQ(short_number(0.0003), "0.0003");
  EXPECT_EQ(short_number(123456.7), "123457");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(25'557'032), "25.6 M");
  EXPECT_EQ(counted(1, "rank") + ", " + counted(2, "rank"), "1 rank, 2 ranks");
  EXPECT_EQ(percent(0.034), "3.4 %");
  EXPECT_EQ(percent(0.5), "50 %");
  EXPECT_EQ(percent(1), "100 %");
}

}  // namespace
}  // namespace mn::report
