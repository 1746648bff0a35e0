// The warning about a rank that keeps the others waiting.
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/torch.h>

#include <mn/core/json.hpp>
#include <mn/trainer/rank_conditions.hpp>
#include <mn/trainer/straggler_watch.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

/// Makes one rank's steps longer from an iteration on.
class SlowRank final : public Extension {
 public:
  SlowRank(int rank, std::int64_t from) : rank_(rank), from_(from) {}
  std::string name() const override { return "slow"; }
  void after_forward(Trainer& trainer, const at::Tensor&) override {
    if (trainer.communicator().rank() != rank_ || trainer.iteration() < from_) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

 private:
  int rank_;
  std::int64_t from_;
};

/// What a run of so many iterations writes to stderr.
std::string log_of(std::int64_t iterations, int slow, std::int64_t from) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = iterations, .out = folder.path()}});
  job.trainer->extend(std::make_unique<SlowRank>(slow, from));
  testing::internal::CaptureStderr();
  EXPECT_EQ(job.trainer->run(), 0);
  return testing::internal::GetCapturedStderr();
}

TEST(StragglerTest, ASlowRankIsNamedOnceWithinFiftySteps) {
  const int slow = world()->size() - 1;
  for (const auto& [iterations, from] : {std::pair(50, 0), std::pair(200, 0)}) {
    const std::string log = log_of(iterations, slow, from);
    if (world()->rank() == 0 && world()->size() > 1) {
      EXPECT_THAT(log, HasSubstr("straggler: rank " + std::to_string(slow) + " on host " +
                                 world()->topology().hosts[static_cast<std::size_t>(slow)]));
      EXPECT_EQ(log.find("straggler"), log.rfind("straggler")) << log;
    } else {
      EXPECT_THAT(log, Not(HasSubstr("straggler")));
    }
  }
}

TEST(StragglerTest, ARankThatBecomesSlowIsNamed) {
  const std::string log = log_of(150, 0, 90);
  if (world()->rank() == 0 && world()->size() > 1) {
    EXPECT_THAT(log, HasSubstr("straggler: rank 0 on host "));
  }
}

TEST(StragglerDetectorTest, NamesWhoIsSlowInTwoWindowsInARow) {
  StragglerDetector detector;
  const std::vector<double> even = {0.010, 0.011, 0.012, 0.010};
  const std::vector<double> slow = {0.010, 0.011, 0.020, 0.010};
  EXPECT_THAT(detector.add(slow), IsEmpty());
  EXPECT_TRUE(detector.suspects());
  EXPECT_THAT(detector.add(even), IsEmpty());
  EXPECT_FALSE(detector.suspects());
  EXPECT_THAT(detector.add(slow), IsEmpty());
  const auto found = detector.add(slow);
  EXPECT_EQ(found.size(), 1U);
  if (!found.empty()) {
    EXPECT_EQ(found[0].rank, 2U);
    EXPECT_EQ(found[0].seconds, 0.020);
    EXPECT_EQ(found[0].median, 0.010);
  }
}

TEST(StragglerDetectorTest, NamesARankAgainOnlyAfterManyGoodWindows) {
  StragglerDetector detector;
  const std::vector<double> slow = {0.01, 0.01, 0.02};
  const auto times_named = [&](int windows, const std::vector<double>& seconds) {
    std::size_t times = 0;
    for (int k = 0; k < windows; ++k) times += detector.add(seconds).size();
    return times;
  };
  EXPECT_EQ(times_named(50, slow), 1U);
  EXPECT_EQ(times_named(StragglerDetector::kQuietWindows - 1, {}), 0U);
  EXPECT_EQ(times_named(50, slow), 0U) << "it had not been good for long enough";
  EXPECT_EQ(times_named(StragglerDetector::kQuietWindows, {}), 0U);
  EXPECT_EQ(times_named(50, slow), 1U);
}

TEST(StragglerDetectorTest, OfTwoRanksTheSlowerIsJudgedByTheFaster) {
  StragglerDetector detector;
  EXPECT_THAT(detector.add({0.02, 0.01}), IsEmpty());
  EXPECT_EQ(detector.add({0.02, 0.01}).size(), 1U);
  StragglerDetector tiny;
  for (int k = 0; k < 5; ++k) EXPECT_THAT(tiny.add({20e-6, 10e-6}), IsEmpty()) << "less than a millisecond";
}

TEST(RankConditionsTest, OnlyWhatDiffersIsSaid) {
  RankConditions before, after;
  after.time_s = 2;
  after.busy_cpu_s = 2;
  after.own_cpu_s = 1.9;
  after.clock_ghz = 3.4;
  after.temperature = 60;
  const json usual = changes_between(before, after);
  EXPECT_EQ(what_differs({usual, usual, usual}, 1), "");
  after.own_cpu_s = 0.8;
  after.queue_s = 1;
  after.involuntary_switches = 300;
  after.clock_ghz = 1.7;
  json slow = changes_between(before, after);
  slow["data_ms"] = 12.0;
  EXPECT_EQ(what_differs({usual, slow, usual}, 1),
            "waited 12.0 ms a step for minibatches (others 0.0), waited for a CPU 50 % of the time (others 0 %), "
            "0.6 CPUs' time of its CPUs went to other processes (others 0.1), "
            "150 involuntary switches a second (others 0), a clock of 1.7 GHz (others 3.4)");
  EXPECT_EQ(what_differs({slow, usual}, 1), "");
  after = before;
  after.time_s = 1;
  after.major_faults = 500;
  after.minor_faults = 20000;
  after.io_wait_s = 0.4;
  after.stolen_cpu_s = 0.1;
  after.throttled = 3;
  after.temperature = 95;
  EXPECT_EQ(
      what_differs({usual, changes_between(before, after)}, 1),
      "a hypervisor took 10 % of its CPUs (others 0 %), its CPUs waited for storage 40 % of the time (others 0 %), "
      "500 page faults a second read from storage (others 0), 20000 page faults a second (others 0), "
      "heat slowed its CPU down 3 times (others 0), 95 °C (others 60)");
}

TEST(RankConditionsTest, CountersGrowWithWhatHappens) {
  const RankConditions before = conditions_now();
  constexpr std::size_t kBytes = 1 << 24;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < end) {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) break;
    std::memset(memory, 1, kBytes);
    munmap(memory, kBytes);
  }
  const RankConditions after = conditions_now();
  EXPECT_GT(after.own_cpu_s, before.own_cpu_s);
  EXPECT_GT(after.busy_cpu_s, before.busy_cpu_s);
  EXPECT_GT(after.minor_faults, before.minor_faults);
  EXPECT_GE(after.queue_s, before.queue_s);
}

}  // namespace
}  // namespace mn
