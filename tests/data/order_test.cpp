// The order of an epoch: a bijection for every size, well mixed, with near neighbors in storage if wanted.
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <mn/core/random.hpp>
#include <mn/data/order.hpp>

#include "tests/scale/mixing.hpp"

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

TEST(Permutation, IsABijectionForEverySize) {
  for (std::uint64_t n = 1; n <= 300; ++n) {
    const Permutation permutation(n, n * 7919);
    std::set<std::uint64_t> seen;
    for (std::uint64_t x = 0; x < n; ++x) {
      const std::uint64_t y = permutation(x);
      EXPECT_LT(y, n);
      seen.insert(y);
    }
    EXPECT_EQ(seen.size(), n);
  }
}

TEST(Permutation, WorksForSizesBeyond32Bits) {
  const std::uint64_t n = (std::uint64_t{1} << 40) + 12345;
  const Permutation permutation(n, 3);
  std::set<std::uint64_t> seen;
  for (std::uint64_t x = 0; x < n; x += n / 997) {
    EXPECT_LT(permutation(x), n);
    EXPECT_TRUE(seen.insert(permutation(x)).second);
  }
}

/// Lanes of every kind.
std::vector<OrderOptions> lane_options() {
  std::vector<OrderOptions> all;
  for (const auto& [lanes, adjacent] : {std::pair(3, 1), {4, 4}, {12, 2}, {96, 8}, {1, 1}}) {
    for (const std::int64_t windows : {1, 2, 7}) {
      for (const bool other : {false, true}) {
        all.push_back({.shuffle = true, .lanes = lanes, .adjacent = adjacent, .windows = windows});
        all.back().mixed = other;
        all.back().aligned = other ? 1 : 5;
      }
    }
  }
  return all;
}

TEST(EpochOrder, IsABijectionForEveryShape) {
  for (const OrderOptions& options : lane_options()) {
    for (const std::int64_t n : {1, 2, 5, 100, 1023}) {
      for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
        EXPECT_TRUE(is_bijection(all_of(EpochOrder(n, options, 7, epoch), n)))
            << "n=" << n << " lanes=" << options.lanes << "/" << options.adjacent << " windows=" << options.windows;
      }
    }
  }
}

TEST(EpochOrder, WindowsHoldWhatPositionsSay) {
  for (const OrderOptions& options : lane_options()) {
    const std::int64_t n = 1000 + options.lanes;
    const EpochOrder order(n, options, 3, 1);
    for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{0, n}, {17, 402}, {n - 30, n}, {5, 5}}) {
      std::vector<std::int64_t> expected, found;
      for (std::int64_t p = first; p < last; ++p) expected.push_back(order(p));
      for (const auto& stretch : order.stretches(first, last)) {
        const OrderWindow window(order, stretch.window);
        const auto rounds = window.rounds(stretch.first, stretch.last);
        for (std::size_t lane = 0; lane < rounds.size(); ++lane) {
          for (std::int64_t round = rounds[lane].first; round < rounds[lane].last; ++round) {
            found.push_back(window.sample(static_cast<std::int64_t>(lane), round));
          }
        }
      }
      std::sort(expected.begin(), expected.end());
      std::sort(found.begin(), found.end());
      EXPECT_EQ(found, expected) << "lanes=" << options.lanes << " windows=" << options.windows;
    }
  }
}

TEST(EpochOrder, WithoutShuffleIsTheStoredOrder) {
  const EpochOrder order(1000, {.lanes = 8}, 1, 5);
  for (std::int64_t p = 0; p < 1000; ++p) EXPECT_EQ(order(p), p);
}

// Checkpoints name positions in these orders: a change would repeat and leave out samples after a resume.
TEST(EpochOrder, IsTheSameInEveryVersion) {
  const OrderOptions lanes{.shuffle = true, .lanes = 12, .adjacent = 2, .windows = 3};
  OrderOptions mixed = lanes;
  mixed.mixed = true;
  using Samples = std::vector<std::int64_t>;
  for (const auto& [options, expected] :
       {std::pair(OrderOptions{.shuffle = true}, Samples{311, 522, 841, 109, 331, 858}),
        {lanes, {116, 778, 676, 869, 194, 544}},
        {mixed, {133, 736, 696, 872, 196, 519}}}) {
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
  for (const OrderOptions& options : {OrderOptions{.shuffle = true}, OrderOptions{.shuffle = true, .lanes = 24}}) {
    const auto first = all_of(EpochOrder(5000, options, 1, 0), 5000);
    EXPECT_EQ(first, all_of(EpochOrder(5000, options, 1, 0), 5000));
    EXPECT_NE(first, all_of(EpochOrder(5000, options, 1, 1), 5000));
    EXPECT_NE(first, all_of(EpochOrder(5000, options, 2, 0), 5000));
  }
}

TEST(EpochOrder, NeighborsInALaneAreNeighborsInStorage) {
  const std::int64_t n = 20000, lanes = 24;
  const EpochOrder order(n, {.shuffle = true, .lanes = lanes, .adjacent = 4, .windows = 5}, 5, 2);
  std::int64_t together = 0;
  for (std::int64_t p = 0; p + lanes < n; ++p) together += order(p + lanes) == order(p) + 1;
  EXPECT_GT(together, n * 98 / 100) << "all but where a lane, chunk or window ends";
}

TEST(DefaultOrder, KeepsToItsLimits) {
  struct Data {
    std::int64_t n, sample_bytes, files, block, index_bytes_each;
  };
  for (const Data& data : {Data{1'000'000, 12288, 46, 6, 5},
                           {10'000, 50'000'000, 20, 1, 8},
                           {1'281'167, 110'000, 560, 1, 16},
                           {100'000'000, 4096, 43'000, 16, 4},
                           {1'000'000'000, 784, 3'000, 84, 4},
                           {14'000'000, 110'000, 6'000, 1, 16},
                           {1'000'000, 12288, 46, 64, 4},
                           {3, std::int64_t{1} << 30, 3, 1, 16}}) {
    const StorageLayout layout{data.n * data.sample_bytes, data.files, data.block, data.n * data.index_bytes_each};
    const OrderOptions order = default_order(data.n, layout, true);
    EXPECT_TRUE(order.shuffle);
    EXPECT_GE(order.lanes, 3);
    EXPECT_EQ(order.lanes % order.adjacent, 0);
    EXPECT_GE(order.windows, 1);
    if (data.n > 1000) {
      EXPECT_LE(order.windows * order.lanes * std::min<std::int64_t>(16 * data.block, 192), data.n) << "lanes are long";
    }
    if (data.block > 1) {
      EXPECT_LE(order.lanes * data.block * data.sample_bytes, kMaxLiveBytes);
    }
    EXPECT_EQ(default_order(data.n, layout, false), OrderOptions{});
  }
  EXPECT_EQ(default_order(60'000, {60'000 * 784, 1, 84, 240'000}, true), OrderOptions{.shuffle = true});
  EXPECT_EQ(default_order(1 << 30, {std::int64_t{1} << 40, 0, 1, 0}, true), OrderOptions{.shuffle = true})
      << "memory is read in any order";
}

// A full shuffle has 1.
TEST(EpochOrder, MixesSamplesOfSortedClasses) {
  const std::int64_t n = 130694;
  const StorageLayout jpegs{std::int64_t{14} << 30, 56, 1, n * 16};
  const StorageLayout blocks{std::int64_t{14} << 30, 56, 2, n * 6};
  EXPECT_NEAR(test::measure_mixing(n, {.shuffle = true}, 100, 256).chi_square, 1.0, 0.05);
  for (const auto& layout : {jpegs, blocks}) {
    const OrderOptions order = default_order(n, layout, true);
    EXPECT_GT(order.lanes, 1);
    const test::Mixing mixing = test::measure_mixing(n, order, 100, 256);
    EXPECT_LT(mixing.chi_square, 1.1);
    EXPECT_LT(mixing.near, 0.01) << "neighbors in storage hardly meet in a batch";
  }
  EXPECT_GT(test::measure_mixing(n, {}, 100, 256).chi_square, 50) << "the measure recognizes a bad order";
}

}  // namespace
}  // namespace mn::data
