// Learning rates over time.
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

/// PyTorch's OneCycleLR(max_lr=0.5, total_steps=11, pct_start=0.4): its last step is that of iteration 10.
TEST(Schedules, OneCycleRisesAndFalls) {
  const Schedule schedule = one_cycle_schedule(0.5, 10, 0.4);
  EXPECT_NEAR(schedule(0), 0.02, 1e-12);
  EXPECT_NEAR(schedule(2), 0.26, 1e-12);
  EXPECT_DOUBLE_EQ(schedule(4), 0.5);
  EXPECT_NEAR(schedule(7), 0.250001, 1e-12);
  EXPECT_DOUBLE_EQ(schedule(10), 2e-6);
  EXPECT_DOUBLE_EQ(schedule(1000), 2e-6);
  EXPECT_DOUBLE_EQ(one_cycle_schedule(1, 10)(3), 1);  // rises for three tenths
  EXPECT_DOUBLE_EQ(one_cycle_schedule(1, 1)(0), 1);
}

TEST(Schedules, WarmUpRisesLinearlyToWhatFollows) {
  const Schedule schedule = warm_up(0.1, 10, constant_schedule(1.1));
  EXPECT_DOUBLE_EQ(schedule(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule(5), 0.6);
  EXPECT_DOUBLE_EQ(schedule(10), 1.1);
  EXPECT_DOUBLE_EQ(warm_up(0.1, 0, constant_schedule(1.1))(0), 1.1);
  // The inner schedule counts from the start: the warm-up delays none of it.
  EXPECT_DOUBLE_EQ(warm_up(0, 10, step_schedule(1, {10}))(10), 0.1);
}

TEST(Schedules, RateScalesWithTheMinibatch) {
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, 8192), 3.2);  // as in Goyal et al.
  EXPECT_DOUBLE_EQ(scale_learning_rate(0.1, 64, 32), 0.2);
}

}  // namespace
}  // namespace mn
