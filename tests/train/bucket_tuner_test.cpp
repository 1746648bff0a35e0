// Which bucket size stays after the first steps.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include <mn/gradients/bucket_tuner.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::world;

/// Steps of candidate `fast` are short, but for its first one, which carries the change and does not count; rank 0's
/// times decide, and others have other ones.
std::size_t tuned(std::size_t fast) {
  BucketTuner tuner({10, 20, 30});
  std::vector<std::size_t> seen = {tuner.bucket_bytes()};
  int steps = 0;
  for (std::size_t size = seen.back(); seen.size() <= 3;) {
    const bool is_first = steps++ % BucketTuner::kSteps == 0;
    const bool is_short = (world()->rank() == 0 ? size == fast : size != fast) && !is_first;
    std::this_thread::sleep_for(std::chrono::milliseconds(is_short ? 1 : is_first && size == fast ? 300 : 40));
    if (const auto changed = tuner.step(*world())) {
      size = *changed;
      seen.push_back(size);
    }
    if (steps > 3 * BucketTuner::kSteps) break;
  }
  EXPECT_EQ(steps, 3 * BucketTuner::kSteps);
  EXPECT_EQ(seen[1], 20U);
  EXPECT_EQ(seen[2], 30U);
  EXPECT_FALSE(tuner.step(*world()).has_value()) << "it is over";
  return tuner.bucket_bytes();
}

TEST(BucketTunerTest, KeepsTheFastest) {
  for (const std::size_t fast : {10, 20, 30}) EXPECT_EQ(tuned(fast), fast);
}

/// What a candidate has taken so far does not count.
TEST(BucketTunerTest, StartsACandidateOver) {
  BucketTuner tuner({10, 20});
  const auto steps = [&](int count, int ms) {
    std::optional<std::size_t> changed;
    for (int step = 0; step < count; ++step) {
      EXPECT_FALSE(changed.has_value()) << step << " of " << count;
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      changed = tuner.step(*world());
    }
    return changed;
  };
  EXPECT_EQ(steps(BucketTuner::kSteps - 1, 200), std::nullopt);
  tuner.start_over();
  EXPECT_EQ(steps(BucketTuner::kSteps, 1), 20U);
  EXPECT_EQ(steps(BucketTuner::kSteps, 60), 10U);
}

TEST(BucketTunerTest, TriesSizesThatTheGradientsFill) {
  const auto sizes = [](std::int64_t mebibytes) {
    return bucket_sizes({}, {torch::empty({mebibytes << 18}, at::kMeta)});
  };
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  constexpr std::size_t kAll = ~std::size_t{0};
  EXPECT_EQ(sizes(1), std::vector{kAll});
  EXPECT_EQ(sizes(16), (std::vector{kMebibyte, 4 * kMebibyte, kAll}));
  EXPECT_EQ(sizes(1000),
            (std::vector{kMebibyte, 4 * kMebibyte, 16 * kMebibyte, 64 * kMebibyte, 256 * kMebibyte, kAll}));
  EXPECT_EQ(bucket_sizes({.deterministic = true, .bucket_bytes = 7}, {}), std::vector{std::size_t{7}});
}

TEST(BucketTunerTest, ASingleCandidateNeedsNoTuning) {
  BucketTuner tuner({7});
  for (int step = 0; step < 2 * BucketTuner::kSteps; ++step) EXPECT_FALSE(tuner.step(*world()).has_value());
  EXPECT_EQ(tuner.bucket_bytes(), 7U);
}

}  // namespace
}  // namespace mn
