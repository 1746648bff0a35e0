// The order of an epoch: a bijection for every size, mixing well, near in storage where it should be.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <mn/core/random.hpp>
#include <mn/data/order.hpp>

namespace mn::data {
namespace {

template <class Order>
std::vector<std::int64_t> all_of(const Order& order, std::int64_t n) {
  std::vector<std::int64_t> samples(n);
  for (std::int64_t p = 0; p < n; ++p) samples[p] = order(p);
  return samples;
}

bool is_bijection(std::vector<std::int64_t> samples) {
  std::sort(samples.begin(), samples.end());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

TEST(Permutation, IsABijectionWithAnInverseForEverySize) {
  for (std::uint64_t n = 1; n <= 300; ++n) {
    const Permutation permutation(n, n * 7919);
    std::set<std::uint64_t> seen;
    for (std::uint64_t x = 0; x < n; ++x) {
      const std::uint64_t y = permutation(x);
      EXPECT_LT(y, n);
      EXPECT_EQ(permutation.inverse(y), x);
      seen.insert(y);
    }
    EXPECT_EQ(seen.size(), n);
  }
}

TEST(Permutation, WorksForSizesBeyond32Bits) {
  const std::uint64_t n = (std::uint64_t{1} << 40) + 12345;
  const Permutation permutation(n, 3);
  for (std::uint64_t x = 0; x < n; x += n / 997) {
    EXPECT_LT(permutation(x), n);
    EXPECT_EQ(permutation.inverse(permutation(x)), x);
  }
}

TEST(BlockShuffle, IsABijectionWithEveryShortLastBlock) {
  for (const std::int64_t n : {1, 2, 63, 64, 65, 127, 128, 129, 1000, 4096, 4097}) {
    for (const std::int64_t block : {1, 2, 64}) {
      for (const std::int64_t window : {1, 3, 16}) {
        const BlockShuffle shuffle(n, block, window, 42 + n);
        EXPECT_TRUE(is_bijection(all_of(shuffle, n))) << "n=" << n << " block=" << block << " window=" << window;
      }
    }
  }
}

TEST(EpochOrder, IsABijectionForEveryShape) {
  for (const std::int64_t n : {1, 5, 100, 1023, 10007}) {
    for (const std::int64_t lanes : {1, 4, 64}) {
      for (const bool sticky : {false, true}) {
        const OrderOptions options{.shuffle = true, .sticky = sticky, .block = 16, .window = 4, .lanes = lanes};
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          EXPECT_TRUE(is_bijection(all_of(EpochOrder(n, options, 7, epoch), n)))
              << "n=" << n << " lanes=" << lanes << " sticky=" << sticky;
        }
      }
    }
  }
}

TEST(EpochOrder, WithoutShuffleIsTheStoredOrder) {
  const EpochOrder order(1000, default_order(1000, 1 << 20, false), 1, 5);
  for (std::int64_t p = 0; p < 1000; ++p) EXPECT_EQ(order(p), p);
}

// Checkpoints name positions in these orders: a change would repeat and leave out samples after a resume.
TEST(EpochOrder, IsTheSameInEveryVersion) {
  const OrderOptions lanes{.shuffle = true, .sticky = false, .block = 64, .window = 16, .lanes = 8};
  OrderOptions sticky = lanes;
  sticky.sticky = true;
  using Samples = std::vector<std::int64_t>;
  for (const auto& [options, expected] :
       {std::pair(default_order(1000, 1 << 20, true), Samples{311, 522, 841, 109, 331, 858}),
        {lanes, {224, 895, 704, 472, 923, 158}},
        {sticky, {717, 641, 848, 182, 401, 95}}}) {
    const EpochOrder order(1000, options, 5, 2);
    Samples found;
    for (const std::int64_t position : {0, 1, 2, 3, 500, 999}) found.push_back(order(position));
    EXPECT_EQ(found, expected);
  }
}

TEST(SplitMix64, GivesThePublishedNumbers) {
  SplitMix64 numbers(1234567);
  EXPECT_EQ(numbers.next(), 6457827717110365317U);
  EXPECT_EQ(numbers.next(), 3203168211198807973U);
  EXPECT_EQ(numbers.next(), 9817491932198370423U);
}

TEST(EpochOrder, DependsOnSeedAndEpoch) {
  const OrderOptions options = default_order(5000, 1 << 20, true);
  const auto first = all_of(EpochOrder(5000, options, 1, 0), 5000);
  EXPECT_EQ(first, all_of(EpochOrder(5000, options, 1, 0), 5000));
  EXPECT_NE(first, all_of(EpochOrder(5000, options, 1, 1), 5000));
  EXPECT_NE(first, all_of(EpochOrder(5000, options, 2, 0), 5000));
}

TEST(EpochOrder, StickyLanesKeepTheirSamples) {
  const std::int64_t n = 10007, lanes = 16;
  const OrderOptions options{.shuffle = true, .sticky = true, .block = 16, .window = 4, .lanes = lanes};
  std::vector<std::set<std::int64_t>> before(lanes), after(lanes);
  for (std::int64_t p = 0; p < n; ++p) {
    before[p % lanes].insert(EpochOrder(n, options, 3, 0)(p));
    after[p % lanes].insert(EpochOrder(n, options, 3, 1)(p));
  }
  EXPECT_EQ(before, after);
}

/// χ² of the classes in batches, over its degrees of freedom: about 1 for a full shuffle of class-sorted samples.
double class_chi_square(const OrderOptions& options, std::int64_t n, int classes, std::int64_t batch) {
  const EpochOrder order(n, options, 11, 0);
  double sum = 0;
  std::int64_t batches = 0;
  for (std::int64_t first = 0; first + batch <= n; first += batch, ++batches) {
    std::vector<double> counts(classes);
    for (std::int64_t p = first; p < first + batch; ++p) counts[order(p) * classes / n] += 1;
    const double expected = static_cast<double>(batch) / classes;
    for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  }
  return sum / static_cast<double>(batches) / (classes - 1);
}

TEST(EpochOrder, MixesClassSortedSamples) {
  const std::int64_t n = 130694;  // beyond what a rank keeps in memory: blocks and lanes
  const OrderOptions large = default_order(n, std::int64_t{14} << 30, true);
  EXPECT_GT(large.lanes, 1);
  EXPECT_GT(large.block, 1);
  EXPECT_NEAR(class_chi_square(default_order(n, 1 << 20, true), n, 100, 256), 1.0, 0.05);
  EXPECT_LT(class_chi_square(large, n, 100, 256), 1.3);
  EXPECT_GT(class_chi_square({.shuffle = false}, n, 100, 256), 50);  // the measure recognizes a bad order
}

TEST(EpochOrder, ALaneReadsFewBlocksAtATime) {
  const std::int64_t n = 100000, lanes = 32;
  const OrderOptions options{.shuffle = true, .sticky = false, .block = 64, .window = 16, .lanes = lanes};
  const EpochOrder order(n, options, 5, 2);
  std::set<std::int64_t> blocks;  // of the first 1,024 samples of lane 3
  for (std::int64_t i = 0; i < 1024; ++i) blocks.insert(order(i * lanes + 3) / 64);
  EXPECT_LE(blocks.size(), 2 * 16 + 2u);  // two windows at most, each of 16 blocks
}

}  // namespace
}  // namespace mn::data
