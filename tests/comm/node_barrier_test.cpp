// The barrier between threads, which is the same memory as between processes: what was written before it is seen
// behind it. ThreadSanitizer judges the orders too.
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/node_barrier.hpp>

namespace mn {
namespace {

/// Plain numbers, one for each thread, that only the barrier orders.
void pass_often(int threads, int rounds) {
  std::vector<SharedCounter> lines(static_cast<std::size_t>(threads));
  std::vector<SharedCounter*> places;
  for (auto& line : lines) places.push_back(&line);
  std::vector<int> rounds_of(lines.size(), 0);
  std::vector<int> wrong(lines.size(), 0);
  const auto run = [&](std::size_t self) {
    NodeBarrier barrier(places, static_cast<int>(self), threads <= 2);
    for (int round = 1; round <= rounds; ++round) {
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
  for (const int threads : {17, 75}) pass_often(threads, 5);
}

/// Nobody arrives before the other sleeps in the kernel, where it would stay for a second if it were not woken: the
/// whole would then last longer than a test may.
TEST(NodeBarrier, WakesWhoSleeps) {
  constexpr int kRounds = 150;
  constexpr auto kPause = std::chrono::microseconds(50);
  std::vector<SharedCounter> lines(2);
  const auto run = [&](int self) {
    NodeBarrier barrier({lines.data(), &lines[1]}, self, true);
    for (int round = 0; round < kRounds; ++round) {
      const auto own = static_cast<std::size_t>(self);
      while (round % 2 == self && lines[own].sleepers.load() == 0) std::this_thread::sleep_for(kPause);
      barrier.arrive_and_wait();
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

TEST(NodeBarrier, OfOneIsOpen) { pass_often(1, 10); }

}  // namespace
}  // namespace mn
