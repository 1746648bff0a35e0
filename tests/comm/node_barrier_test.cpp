// The barrier between threads, whose memory is like memory between processes: writes before the barrier are seen after
// the barrier. ThreadSanitizer checks the orders too.
#include <algorithm>
#include <chrono>
#include <ranges>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/node/node_barrier.hpp>

namespace mn {
namespace {

/// Plain numbers, one for each thread, ordered only by the barrier. The threads take turns in being late.
void pass_often(int threads, int rounds) {
  std::vector<SharedCounter> lines(static_cast<std::size_t>(threads));
  std::vector<SharedCounter*> places;
  for (auto& line : lines) places.push_back(&line);
  std::vector<int> rounds_of(lines.size(), 0);
  std::vector<int> wrong(lines.size(), 0);
  const auto run = [&](std::size_t self) {
    NodeBarrier barrier(places, static_cast<int>(self), threads <= 2);
    for (int round = 1; round <= rounds; ++round) {
      if (round % threads == static_cast<int>(self)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      rounds_of[self] = round;
      barrier.arrive_and_wait();
      for (const int other : rounds_of) wrong[self] += other != round;
      barrier.arrive_and_wait();
    }
  };
  std::vector<std::thread> running;
  for (std::size_t i = 0; i < lines.size(); ++i) running.emplace_back(run, i);
  for (auto& thread : running) thread.join();
  for (const int each : wrong) EXPECT_EQ(each, 0);
}

TEST(NodeBarrier, LetsNobodyPassAlone) { pass_often(2, 200); }

/// More threads than most machines have CPUs: waits end in the kernel.
TEST(NodeBarrier, AlsoWhereThereAreMoreThanCpus) { pass_often(16, 10); }

/// Trees of two and of three levels, with places left at the bottom.
TEST(NodeBarrier, OfManyIsATree) {
  for (const int threads : {17, 75}) pass_often(threads, threads);
}

/// Otherwise each rank would read the counters of all ranks.
TEST(NodeBarrier, OfManyWaitsForTheTopAlone) {
  constexpr int kRanks = 17;
  std::vector<SharedCounter> lines(kRanks);
  std::vector<SharedCounter*> places;
  for (auto& line : lines) places.push_back(&line);
  NodeBarrier leaf(places, kRanks - 1, false);
  lines.front().set(1);
  leaf.arrive_and_wait();
  EXPECT_EQ(lines.back().value.load(), 1U);
}

/// No thread arrives before the second thread sleeps in the kernel, for 20 ms without a wake-up.
TEST(NodeBarrier, WakesWhoSleeps) {
  constexpr int kRounds = 50;
  constexpr auto kPause = std::chrono::microseconds(50);
  std::vector<SharedCounter> lines(2);
  std::vector<std::chrono::steady_clock::time_point> arrived(kRounds);
  std::vector<std::chrono::steady_clock::time_point> woken(kRounds);
  const auto run = [&](int self) {
    NodeBarrier barrier({lines.data(), &lines[1]}, self, true);
    for (std::size_t round = 0; round < kRounds; ++round) {
      const auto own = static_cast<std::size_t>(self);
      const bool is_late = round % 2 == own;
      while (is_late && lines[own].sleepers.load() == 0) std::this_thread::sleep_for(kPause);
      if (is_late) arrived[round] = std::chrono::steady_clock::now();
      barrier.arrive_and_wait();
      if (!is_late) woken[round] = std::chrono::steady_clock::now();
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  const auto late = std::ranges::count_if(std::views::iota(0UL, kRounds + 0UL), [&](std::size_t round) {
    return woken[round] - arrived[round] > std::chrono::milliseconds(10);
  });
  EXPECT_LT(late, kRounds / 2);
}

TEST(NodeBarrier, OfOneIsOpen) { pass_often(1, 10); }

}  // namespace
}  // namespace mn
