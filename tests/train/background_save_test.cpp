// When a Trainer's saves in the background begin, and what they take.
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/support/resident_bytes.hpp"
#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using toy::ToyJob;
using toy::world;

const Interval kEach(1, "iteration");  // NOLINT

/// Calls a function after all other extensions.
struct After final : Extension {
  explicit After(std::function<void(Trainer&)> function) : function_(std::move(function)) {}
  std::string name() const override { return "after"; }
  int priority() const override { return kPriorityLast - 1; }
  void run(Trainer& trainer) override { function_(trainer); }

 private:
  std::function<void(Trainer&)> function_;
};

class BackgroundSaveTest : public toy::CheckpointTest {
 protected:
  BackgroundSaveTest() { options_.trainer.iterations = 1 << 30; }
};

/// Training would have to wait for it. The memory is that of one copy.
TEST_F(BackgroundSaveTest, AContinuousSaveIsNotBegunWhileItsMemoryIsMade) {
  constexpr std::int64_t kBytes = 64 << 20;
  ToyJob job(world(), options_);
  job.model->register_buffer("own", torch::full({kBytes}, world()->rank(), torch::kByte));
  bool is_preparing = false;
  std::optional<std::int64_t> made;
  malloc_trim(0);  // what earlier tests have left would serve
  const std::int64_t before = test::resident_bytes();
  const bool can_measure = test::reset_peak_bytes();
  job.trainer->extend("before", kEach, [&](Trainer& trainer) {
    is_preparing = trainer.checkpointer().is_preparing();
    if (!is_preparing && !made) made = test::resident_bytes() - before;
  });
  job.trainer->extend(std::make_unique<extensions::Snapshot>(2, true), {.trigger = kEach});
  job.trainer->extend(std::make_unique<After>([&](Trainer& trainer) {
    if (!trainer.checkpointer().is_saved()) return;
    EXPECT_FALSE(is_preparing);
    trainer.stop("the first save has begun");
  }));
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_GE(made, kBytes);
  if (can_measure) {
    EXPECT_LE(test::peak_bytes() - before, kBytes * 3 / 2);
  }
  EXPECT_THAT(find_checkpoints(folder_.path()), SizeIs(1));
}

/// Also where the first one's last save took longer than the iterations before.
TEST_F(BackgroundSaveTest, ASecondRunSavesContinuouslyToo) {
  ToyJob job(world(), options_);
  job.model->register_buffer("wide", torch::ones({16 << 20}, torch::kByte));
  std::int64_t last = 5;
  job.trainer->extend(std::make_unique<extensions::Snapshot>(2, true), {.trigger = kEach});
  job.trainer->extend(std::make_unique<After>([&](Trainer& trainer) {
    if (trainer.iteration() == last || (last > 5 && trainer.checkpointer().is_saved())) trainer.stop("enough");
  }));
  EXPECT_EQ(job.trainer->run(), 0);
  last = 20'000;
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_LT(job.trainer->iteration(), last);
}

/// Before what takes long, such as a validation.
TEST_F(BackgroundSaveTest, ASaveThatIsCommittedAtOnceIsMeasured) {
  ToyJob job(world(), options_);
  std::int64_t first = 0;
  job.trainer->extend("long", {2, "iteration"}, [&](Trainer& trainer) {
    if (first == 0 && trainer.checkpointer().is_saved()) first = trainer.iteration();
    std::this_thread::sleep_for(std::chrono::milliseconds(trainer.iteration() == first ? 1000 : 5));
  });
  job.trainer->extend(std::make_unique<extensions::Snapshot>(2, true), {.trigger = Interval(2, "iteration")});
  job.trainer->extend(std::make_unique<After>([&](Trainer& trainer) {
    if (first != 0 && trainer.iteration() > first && trainer.checkpointer().is_saved()) trainer.stop("the second");
  }));
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_GT(first, 0);
  EXPECT_LT(job.trainer->iteration(), first + 100);
}

TEST_F(BackgroundSaveTest, WhatIsThereBeforeTheRunIsSaved) {
  ToyJob job(world(), options_);
  bool is_committed = false;
  job.trainer->checkpointer().save_in_background([&] { is_committed = true; });
  job.trainer->checkpointer().finish();
  EXPECT_TRUE(is_committed);
  EXPECT_THAT(find_checkpoints(folder_.path()), SizeIs(1));
}

/// Keeps something from the fourth step on.
class LateOptimizer final : public torch::optim::Optimizer {
 public:
  explicit LateOptimizer(const std::vector<at::Tensor>& parameters)
      : Optimizer({torch::optim::OptimizerParamGroup(parameters)}, std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  at::Tensor step(LossClosure /*closure*/) override {
    ++steps_;
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    if (steps_ >= 4) archive.write("steps", torch::tensor(steps_));
  }

 private:
  std::int64_t steps_ = 0;
};

/// Has a tensor from the fourth iteration on.
struct LateTensor final : Extension {
  std::string name() const override { return "late"; }
  void run(Trainer& trainer) override {
    if (trainer.iteration() == 4) tensor = torch::ones({3});
  }
  NamedTensors tensors() const override { return {{"tensor", tensor}}; }
  at::Tensor tensor;
};

TEST_F(BackgroundSaveTest, WhatComesAfterTheFirstIterationIsSaved) {
  options_.trainer.iterations = 9;
  const auto net = std::make_shared<toy::ToyNet>(false);
  const auto loss = [net](const Batch& batch, Summary&) { return net->forward(batch.data).square().mean(); };
  Trainer trainer(world(), create_multi_node_optimizer(std::make_unique<LateOptimizer>(net->parameters()), world(), {}),
                  std::make_shared<toy::ToyIterator>(50, 4, *world()), net, loss, options_.trainer);
  trainer.extend(std::make_unique<LateTensor>());
  trainer.extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(5, "iteration")});
  testing::internal::CaptureStderr();
  EXPECT_EQ(trainer.run(), 0);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("stores nothing")));
  EXPECT_THAT(find_checkpoints(folder_.path()), SizeIs(2));
}

/// While it lives, this process can start no thread: their stacks are too large.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 50);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
    EXPECT_THROW(std::thread([] {}).join(), std::system_error);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_ = {};
};

/// Training does itself what they would.
TEST_F(BackgroundSaveTest, NeedsNoThread) {
  options_.trainer.iterations = 9;
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Snapshot>(9), {.trigger = kEach});
  {
    std::optional<NoThreads> none;
    if (world()->rank() == world()->size() - 1) none.emplace();
    EXPECT_EQ(job.trainer->run(), 0);
  }
  EXPECT_THAT(find_checkpoints(folder_.path()), SizeIs(9));
  ToyJob next(world(), options_);
  EXPECT_TRUE(next.trainer->resume("auto"));
  EXPECT_TRUE(next.weights().equal(job.weights()));
}

}  // namespace
}  // namespace mn
