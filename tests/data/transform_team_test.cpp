// Workers of a loader divide a batch, and report causes of waits.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
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

/// How many threads are in enter() … leave() at a time.
class Together {
 public:
  void enter() {
    const int together = ++now_;
    int before = most_;
    while (before < together && !most_.compare_exchange_weak(before, together)) {
    }
  }
  void leave() { --now_; }
  /// Stays in until `wanted` threads were in at a time; not forever.
  void stay(int wanted) {
    enter();
    for (int wait = 0; wait < 5000 && most_ < wanted; ++wait) std::this_thread::sleep_for(milliseconds(1));
    leave();
  }
  [[nodiscard]] int most() const { return most_; }

 private:
  std::atomic<int> now_ = 0, most_ = 0;
};

TEST(TransformTeamTest, NoMoreThreadsThanItHasTransformAtATime) {
  for (const std::int64_t samples : {0, 12}) {  // whole batches, and batches that are divided
    TransformTeam team(2);
    Together inside;
    const auto one = [&](std::int64_t) {
      inside.enter();
      std::this_thread::sleep_for(milliseconds(2));
      inside.leave();
    };
    std::vector<std::jthread> callers;
    for (int order = 0; order < 6; ++order) {
      callers.emplace_back([&, order] {
        team.run(order, [&](const ForEach& for_each) { samples == 0 ? one(0) : for_each(samples, one); });
      });
    }
    callers.clear();
    EXPECT_LE(inside.most(), 2) << samples;
  }
}

TEST(TransformTeamTest, EachBatchIsDividedAndEndsWhenItsLastSampleDoes) {
  TransformTeam team(3);
  for (int order = 0; order < 3; ++order) {
    Together inside;
    std::atomic<int> ended = 0;
    team.run(order, [&, own = std::this_thread::get_id()](const ForEach& for_each) {
      for_each(3, [&](std::int64_t) {
        inside.stay(3);
        if (std::this_thread::get_id() != own) std::this_thread::sleep_for(milliseconds(20));
        ++ended;
      });
      EXPECT_EQ(ended, 3) << order;
    });
    EXPECT_EQ(inside.most(), 3) << order;
  }
}

TEST(TransformTeamTest, ABatchEndsWhileItsHelperGoesOnWithAnother) {
  TransformTeam team(3);
  Together both;
  std::atomic<bool> next_has_begun = false, has_ended = false;
  const auto wait_for = [](const std::atomic<bool>& flag) {
    for (int wait = 0; wait < 5000 && !flag; ++wait) std::this_thread::sleep_for(milliseconds(1));
  };
  const std::jthread first([&] {
    team.run(0, [&, own = std::this_thread::get_id()](const ForEach& for_each) {
      for_each(2, [&](std::int64_t) {
        both.stay(2);
        if (std::this_thread::get_id() != own) wait_for(next_has_begun);
      });
    });
    has_ended = true;
  });
  while (both.most() < 2) std::this_thread::sleep_for(milliseconds(1));
  team.run(1, [&](const ForEach& for_each) {
    for_each(3, [&](std::int64_t) {  // this thread's, the helper's, and a part without a thread
      next_has_begun = true;
      wait_for(has_ended);
      EXPECT_TRUE(has_ended);
    });
  });
}

TEST(Loaders, DivideABatchBetweenIdleWorkers) {
  Together inside;
  LoaderOptions options{.batchsize = 32, .shuffle = false, .workers = 4, .prefetch = 0};
  options.transform = [&](const RawBatch& batch, std::vector<SampleError>&) {
    batch.for_each(batch.samples.size(), [&](std::int64_t) { inside.stay(4); });
    return torch::zeros({1});
  };
  DataLoader loader(std::shared_ptr<const Dataset>(std::make_shared<Slow>()), options);
  EXPECT_TRUE(loader.next());
  EXPECT_EQ(inside.most(), 4);
}

double sum_of(const LoaderStats& stats) { return stats.queue_s + stats.storage_s + stats.transform_s + stats.copy_s; }

TEST(Loaders, SayWhatWasWaitedFor) {
  constexpr milliseconds kPause(60);
  for (const auto slow : {&LoaderStats::storage_s, &LoaderStats::transform_s, &LoaderStats::copy_s}) {
    LoaderOptions options{.batchsize = 32, .shuffle = false, .workers = 1, .prefetch = 0};
    options.transform = [&](const RawBatch&, std::vector<SampleError>&) {
      if (slow == &LoaderStats::transform_s) std::this_thread::sleep_for(kPause);
      return torch::zeros({1});
    };
    options.on_device = [&](std::vector<BatchField>&) {
      if (slow == &LoaderStats::copy_s) std::this_thread::sleep_for(kPause);
    };
    DataLoader loader(
        std::shared_ptr<const Dataset>(std::make_shared<Slow>(slow == &LoaderStats::storage_s ? kPause : kPause * 0)),
        options);
    const auto begin = std::chrono::steady_clock::now();
    while (loader.next()) {
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(loader.stats().*slow, 2 * 0.060);
    EXPECT_LE(sum_of(loader.stats()), elapsed.count());  // each wait once
    EXPECT_DOUBLE_EQ(loader.data_wait_s(), sum_of(loader.stats()));
  }
}

/// A loader's waits while an unwanted minibatch holds the only worker for 200 ms.
LoaderStats stats_behind_another() {
  std::atomic<int> calls = 0;
  std::atomic<bool> holds = true;
  LoaderOptions options{.batchsize = 32, .shuffle = true, .workers = 1, .prefetch = 1};
  options.transform = [&](const RawBatch&, std::vector<SampleError>&) {
    for (const int call = ++calls; call == 2 && holds;) std::this_thread::sleep_for(milliseconds(1));
    return torch::zeros({1});
  };
  DataLoader loader(std::shared_ptr<const Dataset>(std::make_shared<Slow>()), options);
  const auto state = loader.state();
  (void)loader.next();
  while (calls < 2) std::this_thread::sleep_for(milliseconds(1));
  loader.load_state(state);
  const std::jthread release([&] {
    std::this_thread::sleep_for(milliseconds(200));
    holds = false;
  });
  EXPECT_TRUE(loader.next());
  return loader.stats();
}

TEST(Loaders, SayThatABatchHadToWaitForAWorker) {
  double queue_s = 0;
  // This thread may come late, and then does not wait.
  for (int attempt = 0; attempt < 20 && queue_s < 0.1; ++attempt) queue_s = stats_behind_another().queue_s;
  EXPECT_GE(queue_s, 0.1);
}

}  // namespace
}  // namespace mn
