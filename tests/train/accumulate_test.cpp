// Iterations of several minibatches, and which iterators a Trainer takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/loader/function_iterator.hpp>
#include <mn/loader/tensor_dataset.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::TestFolder;
using toy::ToyJob;
using toy::ToyOptions;
using toy::world;

/// Ways to reduce that must not change what an iteration of several minibatches does.
class AccumulateTest : public testing::TestWithParam<bool> {
 protected:
  TestFolder folder_{world()};
  ToyOptions options_ = {.size = 53,  // of which the last iterations of an epoch have fewer, and unequal minibatches
                         .sgd = true,
                         .trainer = {.epochs = 2, .out = folder_.path()},
                         .optimizer = {.overlap = GetParam(), .deterministic = true, .bucket_bytes = 16}};
};

TEST_P(AccumulateTest, EqualsOneLargeMinibatch) {
  ToyOptions several = options_;
  several.batchsize = 2;
  several.trainer.accumulate = 3;
  ToyJob job(world(), several);
  const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>());
  EXPECT_EQ(job.trainer->run(), 0);

  ToyOptions one = options_;
  one.batchsize = 6;
  ToyJob large(world(), one);
  const auto& large_log = large.trainer->extend(std::make_unique<extensions::LogReport>());
  EXPECT_EQ(large.trainer->run(), 0);
  EXPECT_EQ(job.trainer->iteration(), large.trainer->iteration());
  EXPECT_EQ(job.trainer->iterations_per_epoch(), large.trainer->iterations_per_epoch());
  EXPECT_TRUE(torch::allclose(job.weights(), large.weights(), 1e-5, 1e-6)) << job.weights() - large.weights();
  for (std::size_t i = 0; i < log.entries().size(); ++i) {
    EXPECT_NEAR(log.entries()[i].at("main/loss"), large_log.entries()[i].at("main/loss"), 1e-5);
  }
}

TEST_P(AccumulateTest, ReducesOnceAnIteration) {
  ToyOptions options = options_;
  options.size = 48 * world()->size();
  options.batchsize = 4;
  const auto sent_by = [&](std::int64_t accumulate) {
    options.trainer.accumulate = accumulate;
    ToyJob job(world(), options);
    EXPECT_EQ(job.trainer->run(), 0);
    EXPECT_EQ(job.trainer->iteration(), 24 / accumulate);
    return job.trainer->optimizer().bytes_sent();
  };
  const std::uint64_t each = sent_by(1) / 24;
  EXPECT_EQ(each > 0, world()->size() > 1);
  EXPECT_EQ(sent_by(4), 6 * each);
}

TEST_P(AccumulateTest, ResumesBitForBit) {
  ToyOptions options = options_;
  options.noise = true;
  options.batchsize = 2;
  options.trainer.accumulate = 3;
  const auto train = [&](std::int64_t iterations, bool resume) {
    options.trainer.iterations = iterations;
    ToyJob job(world(), options);
    job.trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(2, "iteration")});
    EXPECT_EQ(job.trainer->resume("auto"), resume);
    EXPECT_EQ(job.trainer->run(), 0);
    return job.weights();
  };
  options.trainer.epochs = 20;
  const at::Tensor whole = train(7, false);
  if (world()->rank() == 0) std::filesystem::remove_all(checkpoint_path(folder_.path(), 6));
  world()->barrier();
  EXPECT_TRUE(train(7, true).equal(whole));
}

INSTANTIATE_TEST_SUITE_P(Ways, AccumulateTest, testing::Bool(),
                         [](const auto& with) { return with.param ? "Overlapped" : "Direct"; });

TEST(AccumulateOptions, AreChecked) {
  const TestFolder folder(world());
  EXPECT_THROW(ToyJob(world(), {.trainer = {.epochs = 1, .accumulate = 0, .out = folder.path()}}), UsageError);
}

/// A trainer over any iterator; the model counts what it sees.
class IteratorsTest : public testing::Test {
 protected:
  Trainer trainer_over(std::shared_ptr<Iterator> iterator) {
    std::shared_ptr<MultiNodeOptimizer> optimizer =
        create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model_->parameters(), 0.1), world());
    const auto loss = [this](const Batch& batch, Summary&) {
      return torch::mse_loss(model_->forward(batch.data), batch.target);
    };
    return {world(), optimizer, std::move(iterator), model_, loss, {.epochs = 1, .out = folder_.path()}};
  }

  TestFolder folder_{world()};
  std::shared_ptr<torch::nn::LinearImpl> model_ = std::make_shared<torch::nn::LinearImpl>(3, 1);
};

class OfRanks final : public Iterator {
 public:
  OfRanks(int ranks, std::int64_t steps) : ranks_(ranks), steps_(steps) {}
  std::optional<Batch> next() override { return std::nullopt; }
  std::int64_t epoch() const override { return 0; }
  double epoch_detail() const override { return 0; }
  std::int64_t steps_per_epoch() const override { return steps_; }
  nlohmann::json state() const override { return {}; }
  void load_state(const nlohmann::json&) override {}
  double data_wait_s() const override { return 0; }
  int ranks() const override { return ranks_; }

 private:
  int ranks_;
  std::int64_t steps_;
};

TEST_F(IteratorsTest, ThatRepeatSamplesOnEachRankAreAnError) {
  const auto make = [&](int ranks) { trainer_over(std::make_shared<OfRanks>(ranks, 5)); };
  EXPECT_THAT([&] { make(world()->size() + 1); }, ThrowsMessage<UsageError>(HasSubstr("scatter_dataset()")));
  make(world()->size());
  make(0);
}

TEST_F(IteratorsTest, ThatDifferInTheirStepsAreTheSameErrorOnAllRanks_from_2_ranks) {
  EXPECT_THAT([&] { trainer_over(std::make_shared<OfRanks>(0, world()->rank() == 0 ? 5 : 6)); },
              ThrowsMessage<UsageError>(HasSubstr("different numbers of steps in an epoch ([5,6")));
}

TEST_F(IteratorsTest, ThatOrderTheirSamplesDifferentlyAreTheSameErrorOnAllRanks_from_2_ranks) {
  const bool last = world()->rank() == world()->size() - 1;
  const auto make = [&](std::uint64_t seed, std::int64_t batchsize) {
    const TensorDataset samples = {torch::arange(24).view({24, 1}).to(torch::kFloat), torch::zeros({24, 1})};
    return std::make_shared<TensorLoader>(samples, world(),
                                          TensorLoaderOptions{.batchsize = batchsize, .shuffle = true, .seed = seed});
  };
  trainer_over(make(3, 2));
  EXPECT_THAT([&] { trainer_over(make(last ? 4 : 3, 2)); },
              ThrowsMessage<UsageError>(HasSubstr("seed is 3 on rank 0 and 4 on rank")));
}

TEST_F(IteratorsTest, MayBeOneFunction) {
  const auto iterator = create_iterator(4, [](std::int64_t, std::int64_t step) {
    const at::Tensor x = torch::full({2, 3}, static_cast<double>(step + world()->rank()));
    return Batch{x, x.sum(1, true)};
  });
  Trainer trainer = trainer_over(iterator);
  EXPECT_EQ(trainer.run(), 0);
  EXPECT_EQ(trainer.iteration(), 4);
}

}  // namespace
}  // namespace mn
