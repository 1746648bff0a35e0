// Learning rates over time.
#include <vector>

#include <gtest/gtest.h>

#include <mn/optimizers/schedules.hpp>

namespace mn {
namespace {

TEST(Schedules, ConstantStays) {
  const Schedule schedule = constant_schedule(0.25);
  EXPECT_EQ(schedule(0), 0.25);
  EXPECT_EQ(schedule(1'000'000'000'000), 0.25);
}

TEST(Schedules, StepFallsAtEachMilestone) {
  const Schedule schedule = step_schedule(1, {30, 60}, 0.5);
  EXPECT_EQ(schedule(0), 1);
  EXPECT_EQ(schedule(29), 1);
  EXPECT_EQ(schedule(30), 0.5);
  EXPECT_EQ(schedule(59), 0.5);
  EXPECT_EQ(schedule(60), 0.25);
  EXPECT_EQ(step_schedule(1, {0, 0})(0), 0.1 * 0.1);
}

TEST(Schedules, CosineGoesFromRateToLast) {
  const Schedule schedule = cosine_schedule(1, 100, 0.2);
  EXPECT_DOUBLE_EQ(schedule(0), 1);
  EXPECT_DOUBLE_EQ(schedule(50), 0.6);
  EXPECT_NEAR(schedule(25), 0.6 + 0.4 * 0.70710678, 1e-8);
  EXPECT_DOUBLE_EQ(schedule(100), 0.2);
  EXPECT_DOUBLE_EQ(schedule(1000), 0.2);
  EXPECT_EQ(cosine_schedule(1, 0)(0), 0);
}

/// PyTorch's OneCycleLR(max_lr=1, total_steps=n), whose phases end at 0.3 n - 1 and n - 1; torch_numbers_test has more.
TEST(Schedules, LinearGoesFromRateToLast) {
  const Schedule schedule = linear_schedule(1, 8, 0.2);
  EXPECT_DOUBLE_EQ(schedule(0), 1);
  EXPECT_DOUBLE_EQ(schedule(6), 0.4);
  EXPECT_DOUBLE_EQ(schedule(9), 0.2);
}

TEST(Schedules, WsdFallsInTheLastIterations) {
  const Schedule schedule = wsd_schedule(1, 100, 0.1, 0.5);
  EXPECT_DOUBLE_EQ(schedule(90), 1);
  EXPECT_DOUBLE_EQ(schedule(95), 0.75);
  EXPECT_DOUBLE_EQ(schedule(200), 0.5);
  EXPECT_DOUBLE_EQ(wsd_schedule(1, 100, 0)(200), 1);
}

TEST(Schedules, OneCycleIsPyTorchs) {
  const std::vector<std::vector<double>> wanted = {
      {4e-06},
      {0.811745654, 4e-06},
      {0.994415435, 0.462637103, 4e-06},
      {0.04, 0.811745654, 0.283060998, 4e-06},
      {0.04, 0.52, 1.0, 0.950484632, 0.811745654, 0.611262022, 0.388741978, 0.188258346, 0.049519368, 4e-06}};
  for (const auto& rates : wanted) {
    const Schedule schedule = one_cycle_schedule(1, static_cast<std::int64_t>(rates.size()));
    for (std::size_t i = 0; i < rates.size(); ++i) {
      EXPECT_NEAR(schedule(static_cast<std::int64_t>(i)), rates[i], 1e-9) << i << " of " << rates.size();
    }
    EXPECT_DOUBLE_EQ(schedule(1000), 4e-6);
  }
  EXPECT_DOUBLE_EQ(one_cycle_schedule(1, 2, 0.5)(0), 1);  // there PyTorch divides by zero
}

TEST(Schedules, WarmUpRisesLinearlyToWhatFollows) {
  const Schedule schedule = warm_up(0.1, 10, constant_schedule(1.1));
  EXPECT_DOUBLE_EQ(schedule(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule(5), 0.6);
  EXPECT_DOUBLE_EQ(schedule(10), 1.1);
  EXPECT_DOUBLE_EQ(warm_up(0.1, 0, constant_schedule(1.1))(0), 1.1);
  // The inner schedule counts from the start: the warm-up delays none of it.
  EXPECT_DOUBLE_EQ(warm_up(0, 10, step_schedule(1, {10}))(10), 0.1);
  const Schedule held = warm_up(0, 10, holding(10, linear_schedule(1, 20)));
  for (const auto& [iteration, rate] : {std::pair(5, 0.5), {10, 1.0}, {20, 0.5}, {30, 0.0}, {40, 0.0}}) {
    EXPECT_DOUBLE_EQ(held(iteration), rate) << iteration;
  }
}

TEST(Schedules, ACurveMayStartLater) {
  const Schedule schedule = starting_at(5, warm_up(0.5, 2, step_schedule(1, {3}, 0.25)));
  for (const auto& [iteration, rate] : {std::pair(0, 0.0), {4, 0.0}, {5, 0.5}, {6, 0.75}, {7, 1.0}, {8, 0.25}}) {
    EXPECT_DOUBLE_EQ(schedule(iteration), rate) << iteration;
  }
  EXPECT_DOUBLE_EQ(scaled_schedule(0.5, schedule)(7), 0.5);
}

TEST(Schedules, ExponentialRisesByTheSameFactor) {
  const Schedule schedule = exponential_schedule(1e-4, 10, 5);
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_NEAR(schedule(i + 1) / schedule(i), 10, 1e-9) << i;
  EXPECT_EQ(schedule(5), 10);
  EXPECT_EQ(schedule(50), 10);
}

TEST(Schedules, RateScalesWithTheMinibatch) {
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, 8192), 3.2);  // as in Goyal et al.
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, 64, 32), 0.2);
}

}  // namespace
}  // namespace mn
