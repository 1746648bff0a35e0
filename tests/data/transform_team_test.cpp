// Workers of a loader divide a batch, and say what was waited for.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/loader/loader.hpp>
#include <mn/loader/transform_team.hpp>

namespace mn {
namespace {

using std::chrono::milliseconds;

/// Samples of one byte, each read `pause` late.
class Slow final : public Dataset {
 public:
  explicit Slow(milliseconds pause = {}) : pause_(pause) {}

 private:
  std::int64_t do_size() const override { return 64; }
  const SampleSpec& do_spec() const override { return spec_; }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out, std::vector<SampleError>*) const override {
    std::this_thread::sleep_for(pause_);
    out.reset(spec_, std::ssize(indices));
    std::ranges::fill(out.columns[0].bytes, std::byte{1});
  }

  milliseconds pause_;
  SampleSpec spec_ = {{{.name = "x", .shape = {1}}}};
};

TEST(TransformTeamTest, EverySampleIsTransformedOnceWhateverTheThreads) {
  for (const int threads : {1, 2, 5}) {
    TransformTeam team(threads);
    std::vector<std::atomic<int>> calls(100);
    team.run(0, [&](const ForEach& for_each) {
      for_each(0, [](std::int64_t) { ADD_FAILURE(); });
      for_each(1, [&](std::int64_t i) { calls[i] += 10; });
      for_each(100, [&](std::int64_t i) { ++calls[i]; });
    });
    EXPECT_EQ(calls[0], 11);
    for (std::size_t i = 1; i < calls.size(); ++i) EXPECT_EQ(calls[i], 1) << i;
  }
}

TEST(TransformTeamTest, ErrorsReachTheCallerAndLeaveTheTeamWhole) {
  TransformTeam team(3);
  const auto fail = [&](const ForEach& for_each) {
    for_each(20, [](std::int64_t i) {
      if (i == 7) throw DataError("seven");
    });
  };
  EXPECT_THROW(team.run(0, fail), DataError);
  EXPECT_THROW(team.run(1, [](const ForEach&) { throw DataError("at once"); }), DataError);
  int calls = 0;
  for (int order = 2; order < 6; ++order) team.run(order, [&](const ForEach&) { ++calls; });
  EXPECT_EQ(calls, 4);
}

TEST(TransformTeamTest, TheBatchThatIsAskedForFirstGoesFirst) {
  TransformTeam team(2);
  std::mutex mutex;
  std::vector<int> log;
  std::atomic<bool> ended = false;
  const auto run = [&](int order, std::int64_t samples) {
    team.run(order, [&](const ForEach& for_each) {
      for_each(samples, [&](std::int64_t) {
        if (ended) return;
        {
          const std::lock_guard lock(mutex);
          log.push_back(order);
        }
        std::this_thread::sleep_for(milliseconds(1));
      });
    });
  };
  const auto begun = [&] {
    const std::lock_guard lock(mutex);
    return !log.empty();
  };
  std::jthread later([&] { run(1, 1'000'000); });
  while (!begun()) std::this_thread::sleep_for(milliseconds(1));
  run(0, 20);
  ended = true;
  later.join();
  const auto first = std::ranges::find(log, 0);
  const auto last = std::find(log.rbegin(), log.rend(), 0).base();
  EXPECT_LE(last - first, 20 + 2) << "samples that both threads had begun already";
}

TEST(Loaders, DivideABatchBetweenIdleWorkers) {
  std::atomic<int> now = 0, most = 0;
  LoaderOptions options{.batchsize = 32, .shuffle = false, .workers = 4, .prefetch = 0};
  options.transform = [&](const RawBatch& batch, std::vector<SampleError>&) {
    batch.for_each(batch.samples.size(), [&](std::int64_t) {
      const int together = ++now;
      int before = most;
      while (before < together && !most.compare_exchange_weak(before, together)) {
      }
      for (int wait = 0; wait < 5000 && most < 4; ++wait) std::this_thread::sleep_for(milliseconds(1));
      --now;
    });
    return torch::zeros({1});
  };
  DataLoader loader(std::shared_ptr<const Dataset>(std::make_shared<Slow>()), options);
  EXPECT_TRUE(loader.next());
  EXPECT_EQ(most, 4);
}

TEST(Loaders, SayWhatWasWaitedFor) {
  constexpr milliseconds kPause(60);
  for (const bool reads_slowly : {true, false}) {
    LoaderOptions options{.batchsize = 32, .shuffle = false, .workers = 1, .prefetch = 0};
    options.transform = [&](const RawBatch&, std::vector<SampleError>&) {
      if (!reads_slowly) std::this_thread::sleep_for(kPause);
      return torch::zeros({1});
    };
    DataLoader loader(std::shared_ptr<const Dataset>(std::make_shared<Slow>(reads_slowly ? kPause : milliseconds(0))),
                      options);
    const auto begin = std::chrono::steady_clock::now();
    while (loader.next()) {
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    const LoaderStats stats = loader.stats();
    EXPECT_GE(reads_slowly ? stats.storage_s : stats.transform_s, 2 * 0.060);
    EXPECT_LE(stats.queue_s + stats.storage_s + stats.transform_s + stats.copy_s, elapsed.count());  // each wait once
  }
}

}  // namespace
}  // namespace mn
