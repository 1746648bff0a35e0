// The intervals of triggers.
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/trainer/triggers.hpp>

namespace mn {
namespace {

using testing::ElementsAre;

TEST(IntervalTest, ParsesEpochsIterationsAndSeconds) {
  EXPECT_EQ(Interval::parse("5e"), Interval(5, "epoch"));
  EXPECT_EQ(Interval::parse("100i"), Interval(100, "iteration"));
  EXPECT_EQ(Interval::parse("60s"), Interval(60, "second"));
  EXPECT_EQ(Interval::parse("3"), Interval(3, "epoch"));
  EXPECT_EQ(Interval::parse("0.5e"), Interval(0.5, IntervalUnit::kEpoch));
  for (const char* text : {"5e", "100i", "60s", "0.5e"}) EXPECT_EQ(Interval::parse(text).str(), text);
}

TEST(IntervalTest, RejectsTextThatIsNotAnInterval) {
  for (const char* text : {"", "e", "0", "0e", "-1i", "1.5i", "5x", "5 e", "i5", "nan", "inf", "1e5e5"}) {
    EXPECT_THROW(static_cast<void>(Interval::parse(text)), UsageError) << text;
  }
  EXPECT_THROW(Interval(1, "week"), UsageError);
  EXPECT_THROW(Interval(0, "epoch"), UsageError);
}

TEST(IntervalTest, PassesEachMultipleOnce) {
  const Interval three(3, IntervalUnit::kIteration);
  std::vector<int> passed;
  for (int i = 1; i <= 10; ++i) {
    if (three.passed(i - 1, i)) passed.push_back(i);
  }
  EXPECT_THAT(passed, ElementsAre(3, 6, 9));
  EXPECT_TRUE(Interval(0.5, IntervalUnit::kEpoch).passed(0.4, 0.6));
  EXPECT_FALSE(Interval(0.5, IntervalUnit::kEpoch).passed(0.6, 0.9));
}

/// 0.3 is not quite three times 0.1.
TEST(IntervalTest, PartsOfAnEpochPassAtTheirSteps) {
  constexpr int kSteps = 20;
  for (const int parts : {3, 4, 10, 20}) {
    const Interval part(1.0 / parts, IntervalUnit::kEpoch);
    int passed = 0;
    for (int k = 1; k <= 50 * kSteps; ++k) {
      passed += part.passed(static_cast<double>(k - 1) / kSteps, static_cast<double>(k) / kSteps) ? 1 : 0;
      ASSERT_EQ(passed, k * parts / kSteps) << "of " << parts << " an epoch after step " << k;
    }
  }
}

}  // namespace
}  // namespace mn
