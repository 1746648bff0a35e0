// Checkpoints of a training loop without a Trainer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/loop_checkpoints.hpp>

#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using toy::TestFolder;
using toy::ToyIterator;
using toy::ToyNet;
using toy::world;

constexpr std::int64_t kGlobalBatch = 12;  // 1, 2 and 3 ranks divide it

/// A model with dropout, its optimizer and samples.
struct Loop {
  explicit Loop(const std::shared_ptr<Communicator>& ranks, bool noise = false)
      : comm(ranks), iterator(40, kGlobalBatch / ranks->size(), *ranks) {
    torch::manual_seed(5);
    model = std::make_shared<ToyNet>(noise);
    torch::manual_seed(100 + comm->rank());
    const auto settings = torch::optim::SGDOptions(0.1).momentum(0.9);
    optimizer = create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), settings), comm);
  }
  void train(std::int64_t steps) {
    for (std::int64_t step = 0; step < steps;) {
      const auto batch = iterator.next();
      if (!batch) continue;
      optimizer->zero_grad();
      torch::nn::functional::cross_entropy(model->forward(batch->data), batch->target).backward();
      optimizer->step(static_cast<double>(batch->samples));
      ++step;
    }
  }
  at::Tensor weights() const {
    return torch::cat({model->first->weight.detach().flatten(), model->second->weight.detach().flatten()});
  }

  std::shared_ptr<Communicator> comm;
  ToyIterator iterator;
  std::shared_ptr<ToyNet> model;
  std::unique_ptr<MultiNodeOptimizer> optimizer;
};

TEST(LoopCheckpointsTest, AResumedLoopIsBitIdenticalToALoopWithoutABreak) {
  const TestFolder folder(world());
  Loop whole(world(), /*noise=*/true);
  whole.train(6);
  {
    LoopCheckpoints checkpoints(world(), *whole.optimizer, whole.iterator, *whole.model, folder.path());
    EXPECT_FALSE(checkpoints.resume("auto"));
    EXPECT_TRUE(checkpoints.own().is_null());
    checkpoints.save(6, {{"best", 0.5}});
  }
  whole.train(5);
  const at::Tensor random = torch::rand({4});

  Loop parts(world(), /*noise=*/true);
  LoopCheckpoints checkpoints(world(), *parts.optimizer, parts.iterator, *parts.model, folder.path());
  EXPECT_TRUE(checkpoints.resume("auto"));
  EXPECT_EQ(checkpoints.step(), 6);
  EXPECT_EQ(checkpoints.own(), json({{"best", 0.5}}));
  parts.train(5);
  EXPECT_TRUE(parts.weights().equal(whole.weights()));
  EXPECT_TRUE(parts.model->running_mean.equal(whole.model->running_mean));
  EXPECT_TRUE(torch::rand({4}).equal(random));
}

TEST(LoopCheckpointsTest, OneRankContinuesTheTrainingOfAllRanks_from_2_ranks) {
  const TestFolder folder(world());
  const bool is_first = world()->rank() == 0;
  const auto alone = world()->split(is_first ? 0 : -1, 0);
  Loop many(world());
  many.train(6);
  {
    LoopCheckpoints checkpoints(world(), *many.optimizer, many.iterator, *many.model, folder.path());
    checkpoints.save(6);
  }
  many.train(5);
  if (is_first) {
    Loop one(alone);
    LoopCheckpoints checkpoints(alone, *one.optimizer, one.iterator, *one.model, folder.path());
    EXPECT_TRUE(checkpoints.resume("auto"));
    one.train(5);
    EXPECT_TRUE(torch::allclose(one.weights(), many.weights(), 1e-4, 1e-5)) << one.weights() - many.weights();
  }
  world()->barrier();
}

TEST(LoopCheckpointsTest, KeepsTheNewestCheckpoints) {
  const TestFolder folder(world());
  Loop loop(world());
  LoopCheckpoints checkpoints(world(), *loop.optimizer, loop.iterator, *loop.model, folder.path(), 2);
  for (const std::int64_t step : {1, 2, 3, 4}) checkpoints.save(step);
  world()->barrier();
  const auto found = find_checkpoints(folder.path());
  EXPECT_EQ(found, (std::vector{checkpoint_path(folder.path(), 4), checkpoint_path(folder.path(), 3)}));
  world()->barrier();
}

TEST(LoopCheckpointsTest, ATrainerContinuesALoopAndALoopATrainer) {
  const TestFolder folder(world());
  const toy::ToyOptions options = {.sgd = true, .trainer = {.iterations = 4, .out = folder.path()}};
  Loop loop(world());
  loop.train(3);
  {
    LoopCheckpoints checkpoints(world(), *loop.optimizer, loop.iterator, *loop.model, folder.path());
    checkpoints.save(3);
  }
  {
    toy::ToyJob job(world(), options);
    EXPECT_TRUE(job.trainer->resume("auto"));
    EXPECT_EQ(job.trainer->iteration(), 3);
    EXPECT_EQ(job.trainer->run(), 0);
    job.trainer->save(checkpoint_path(folder.path(), 4));
  }
  LoopCheckpoints checkpoints(world(), *loop.optimizer, loop.iterator, *loop.model, folder.path());
  EXPECT_TRUE(checkpoints.resume("auto"));
  EXPECT_EQ(checkpoints.step(), 4);
  EXPECT_TRUE(checkpoints.own().is_null());
}

TEST(LoopCheckpointsTest, RejectsWrongArguments) {
  const TestFolder folder(world());
  Loop loop(world());
  EXPECT_THROW(LoopCheckpoints(world(), *loop.optimizer, loop.iterator, *loop.model, folder.path(), 0), UsageError);
  LoopCheckpoints checkpoints(world(), *loop.optimizer, loop.iterator, *loop.model, folder.path());
  checkpoints.save(2);
  EXPECT_THROW(checkpoints.save(1), ArgumentError);
  EXPECT_THROW(checkpoints.resume((folder.path() / "absent").string()), DataError);
}

}  // namespace
}  // namespace mn
