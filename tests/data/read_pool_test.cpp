#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <mn/data/read_pool.hpp>

namespace mn::data {
namespace {

TEST(ReadPool, CallsWaitTogether) {
  ReadPool pool(7);
  std::barrier all_eight(8);  // ends only if the caller and seven threads are inside at once
  pool.run(8, [&](std::size_t) { all_eight.arrive_and_wait(); });
}

TEST(ReadPool, MakesEachCallOnceForSeveralAtATime) {
  ReadPool pool(3);
  std::vector<std::jthread> callers;
  std::atomic<int> wrong = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (std::size_t n = 0; n < 200; ++n) {
        std::vector<int> calls(n, caller);
        pool.run(n, [&](std::size_t i) { calls[i] += 10; });
        for (const int each : calls) wrong += each == caller + 10 ? 0 : 1;
      }
    });
  }
  callers.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(ReadPool, WorksWithoutThreads) {
  ReadPool pool(0);
  int calls = 0;
  pool.run(5, [&](std::size_t) { ++calls; });
  EXPECT_EQ(calls, 5);
}

}  // namespace
}  // namespace mn::data
