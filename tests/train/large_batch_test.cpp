// What large minibatches need: learning-rate schedules over resumes, averaged buffers.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extensions/allreduce_persistent.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::TestFolder;
using toy::ToyJob;
using toy::world;

double rate_of(ToyJob& job) { return job.trainer->optimizer().param_groups().front().options().get_lr(); }

TEST(LearningRate, IsSetBeforeEachIteration) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 4, .out = folder.path()}});
  std::vector<double> used;
  job.trainer->extend("watch", {1, "iteration"}, [&](Trainer&) { used.push_back(rate_of(job)); });
  job.trainer->extend(std::make_unique<extensions::LearningRate>(
      [](std::int64_t iteration) { return static_cast<double>(iteration + 1); }));
  const auto& log =
      job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval{1, "iteration"}});
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_EQ(used, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(log.entries().back().at("lr"), 4);
}

TEST(LearningRate, ContinuesAfterAResume) {
  const TestFolder folder(world());
  const auto schedule = [](std::int64_t iteration) { return 0.01 / static_cast<double>(iteration + 1); };
  ToyJob first(world(), {.trainer = {.iterations = 3, .out = folder.path()}});
  first.trainer->extend(std::make_unique<extensions::LearningRate>(schedule));
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(checkpoint_path(folder.path(), 3));

  ToyJob second(world(), {.trainer = {.iterations = 5, .out = folder.path()}});
  std::vector<double> used;
  second.trainer->extend("watch", {1, "iteration"}, [&](Trainer&) { used.push_back(rate_of(second)); });
  second.trainer->extend(std::make_unique<extensions::LearningRate>(schedule));
  EXPECT_TRUE(second.trainer->resume("auto"));
  EXPECT_EQ(second.trainer->run(), 0);
  EXPECT_EQ(used, (std::vector<double>{schedule(3), schedule(4)}));
}

TEST(LearningRate, ContinuesFromTheSameFractionOfTheEpochAfterAResumeOfAnotherSize) {
  const TestFolder folder(world());
  const auto schedule = [](std::int64_t iteration) { return 0.01 / static_cast<double>(iteration + 1); };
  const auto next_rate = [&](std::int64_t batchsize, std::int64_t iterations) {
    ToyJob job(world(), {.size = 48 * world()->size(),
                         .batchsize = batchsize,
                         .trainer = {.iterations = iterations, .out = folder.path()}});
    job.trainer->extend(std::make_unique<extensions::LearningRate>(schedule));
    (void)job.trainer->resume("auto");
    EXPECT_EQ(job.trainer->run(), 0);
    job.trainer->save(checkpoint_path(folder.path(), iterations));
    return rate_of(job);
  };
  EXPECT_EQ(next_rate(4, 18), schedule(18));  // one epoch and a half
  EXPECT_EQ(next_rate(8, 19), schedule(9 + 1));
  EXPECT_EQ(next_rate(8, 20), schedule(9 + 2));
  EXPECT_EQ(next_rate(4, 22), schedule(22 + 2));
}

struct Buffers : torch::nn::Module {
  explicit Buffers(int rank) {
    mean = register_buffer("running_mean", torch::full({3, 5}, 1000.0 + rank));
    variance = register_buffer("running_var", torch::arange(15, torch::kDouble).view({3, 5}) * rank);
    codebook = register_buffer("codebook", torch::full({4}, static_cast<double>(rank)));
    queue = register_buffer("queue", torch::full({2}, static_cast<double>(rank)));
    count = register_buffer("count", torch::tensor(40 + rank, torch::kLong));
    weight = register_parameter("weight", torch::full({2}, static_cast<double>(rank)));
  }
  at::Tensor mean, variance, codebook, queue, count, weight;
};

TEST(AverageBuffers, RunningStatisticsBecomeThoseOfAllRanks) {
  const int rank = world()->rank();
  const int size = world()->size();
  const double mean_rank = (size - 1) / 2.0;
  const double between = (size * size - 1) / 12.0;  // the variance of 0 … size − 1
  Buffers model(rank);
  average_buffers(model, *world(), {"queue"});
  EXPECT_TRUE(model.mean.equal(torch::full({3, 5}, 1000 + mean_rank)));
  const at::Tensor variance = torch::arange(15, torch::kDouble).view({3, 5}) * mean_rank + between;
  EXPECT_TRUE(torch::allclose(model.variance, variance, 0, 1e-8)) << model.variance;
  EXPECT_TRUE(model.queue.equal(torch::full({2}, mean_rank)));
  // All else is left alone.
  EXPECT_TRUE(model.codebook.equal(torch::full({4}, static_cast<double>(rank))));
  EXPECT_EQ(model.count.item<std::int64_t>(), 40 + rank);
  EXPECT_TRUE(model.weight.equal(torch::full({2}, static_cast<double>(rank))));
  for (const char* name : {"queues", "count"}) {
    EXPECT_THAT([&] { average_buffers(model, *world(), {name}); },
                testing::ThrowsMessage<ArgumentError>(testing::HasSubstr(name)));
  }
}

/// Calls a function before all other extensions of an epoch's end.
class FirstOfAll final : public Extension {
 public:
  explicit FirstOfAll(std::function<void()> call) : call_(std::move(call)) {}
  std::string name() const override { return "first"; }
  Interval trigger() const override { return {1, "epoch"}; }
  int priority() const override { return 1'000'000; }
  void run(Trainer&) override { call_(); }

 private:
  std::function<void()> call_;
};

TEST(AverageBuffers, ExtensionRunsBeforeTheSnapshot) {
  const TestFolder folder(world());
  ToyJob job(world(), {.noise = true, .trainer = {.epochs = 1, .out = folder.path()}});
  at::Tensor mean;  // over ranks, of what each had before
  job.trainer->extend(std::make_unique<FirstOfAll>([&] {
    mean = job.model->running_mean.clone();
    world()->allreduce(mean, ReduceOp::kSum);
    mean /= world()->size();
  }));
  job.trainer->extend(std::make_unique<extensions::Snapshot>());  // added before, and yet it runs later
  job.trainer->extend(std::make_unique<extensions::AllreducePersistent>());
  EXPECT_EQ(job.trainer->run(), 0);
  toy::ToyNet saved(true);
  load_model(checkpoint_path(folder.path(), job.trainer->iteration()), saved, *world());
  EXPECT_TRUE(torch::allclose(saved.running_mean, mean)) << saved.running_mean - mean;
}

}  // namespace
}  // namespace mn
