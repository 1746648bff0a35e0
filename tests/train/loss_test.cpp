// Losses that make collective calls, and losses that are means over something else than samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/loader/function_iterator.hpp>
#include <mn/loader/tensor_dataset.hpp>
#include <mn/nn/batch_norm.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extensions/fail_on_non_number.hpp>
#include <mn/trainer/extensions/log_report.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::world;

/// A network with batch normalization over all ranks, on `samples` samples of which a step takes `global_batch`.
struct NormJob {
  NormJob(const std::shared_ptr<Communicator>& comm, std::int64_t samples, TensorLoaderOptions loading) : folder(comm) {
    torch::manual_seed(5);
    const at::Tensor x = torch::randn({samples, 6}), y = torch::randn({samples, 2});
    model = torch::nn::Sequential(torch::nn::Linear(6, 8), MultiNodeBatchNorm(comm, torch::nn::BatchNormOptions(8)),
                                  torch::nn::Linear(8, 2));
    std::shared_ptr<MultiNodeOptimizer> optimizer =
        create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), 0.1), comm);
    const auto loss = [net = model](const Batch& batch, Summary&) mutable {
      return torch::mse_loss(net->forward(batch.data), batch.target);
    };
    trainer =
        std::make_unique<Trainer>(comm, optimizer, std::make_shared<TensorLoader>(TensorDataset(x, y), comm, loading),
                                  model.ptr(), loss, TrainerOptions{.epochs = 3, .out = folder.path()});
  }
  [[nodiscard]] at::Tensor weights() const { return torch::nn::utils::parameters_to_vector(model->parameters()); }

  toy::TestFolder folder;
  torch::nn::Sequential model;
  std::unique_ptr<Trainer> trainer;
};

/// The last steps share what is left, so each rank has a sample; with a whole step and one sample more, too.
TEST(CollectiveLoss, TrainsAsOneRankThroughShortLastSteps) {
  for (const std::int64_t more : {1, 5, 11}) {
    NormJob job(world(), 24 + more, {.batchsize = 12 / world()->size(), .shuffle = true});
    EXPECT_EQ(job.trainer->run(), 0);
    NormJob alone(world()->split(world()->rank(), 0), 24 + more, {.batchsize = 12, .shuffle = true});
    EXPECT_EQ(alone.trainer->run(), 0);
    EXPECT_TRUE(torch::allclose(job.weights(), alone.weights(), 1e-4, 1e-5)) << job.weights() - alone.weights();
  }
}

/// Single samples, so that the last step lacks some on the last rank. The loss makes collective calls in the first step
/// alone, and the others' training ends by an error of their own: nobody waits here.
TEST(CollectiveLoss, OfARankWithoutSamplesIsAnError_from_2_ranks) {
  const toy::TestFolder folder(world());
  const std::int64_t ranks = world()->size();
  torch::nn::Linear model(2, 1);
  std::shared_ptr<MultiNodeOptimizer> optimizer =
      create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), 0.1), world());
  const auto make_loader = [&] {
    return std::make_shared<TensorLoader>(
        TensorDataset(torch::ones({2 * ranks - 1, 2}), torch::ones({2 * ranks - 1, 1})), world(),
        TensorLoaderOptions{.batchsize = 1, .even_last = false});
  };
  int calls = 0;
  const auto loss = [&](const Batch& batch, Summary&) {
    if (calls++ == 0) world()->barrier();
    return torch::mse_loss(model->forward(batch.data), batch.target);
  };
  const auto expect_error = [&](const std::function<void()>& call) {
    if (world()->rank() + 1 < ranks) return call();
    EXPECT_THAT(call, ThrowsMessage<ArgumentError>(HasSubstr("this rank has no samples in a step of epoch 1 of")));
  };
  struct Enough {};
  const auto loss_once = [&](const Batch& batch, Summary& report) {
    if (calls == 1) throw Enough();
    return loss(batch, report);
  };
  Trainer trainer(world(), optimizer, make_loader(), model.ptr(), loss_once, {.iterations = 2, .out = folder.path()});
  expect_error([&] {
    try {
      ADD_FAILURE() << trainer.run();
    } catch (const Enough&) {
    }
  });
  calls = 0;
  const auto evaluator = create_evaluator(make_loader(), model.ptr(), [&](const Batch& batch, Summary& report) {
    report.add("loss", loss(batch, report).item<double>(), batch.loss_weight());
  });
  expect_error([&] { static_cast<void>(evaluator->evaluate()); });
}

/// All ranks end with one error, with nothing sent that others would wait in.
TEST(CollectiveLoss, ARankWithoutSamplesInTheFirstStepIsNamed_from_2_ranks) {
  const toy::TestFolder folder(world());
  for (const bool collective : {true, false}) {
    torch::nn::Linear model(2, 1);
    std::shared_ptr<MultiNodeOptimizer> optimizer =
        create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), 0.1), world());
    const auto iterator = create_iterator(3, [&](std::int64_t, std::int64_t step) {
      const std::int64_t count = step == 0 && world()->rank() == 1 ? 0 : 2;
      return Batch{torch::ones({count, 2}), torch::ones({count, 1}), count};
    });
    const auto loss = [&](const Batch& batch, Summary&) {
      if (collective) world()->barrier();
      return torch::mse_loss(model->forward(batch.data), batch.target);
    };
    Trainer trainer(world(), optimizer, iterator, model.ptr(), loss, {.epochs = 1, .out = folder.path()});
    const auto run = [&] { EXPECT_EQ(trainer.run(), 0); };
    if (!collective) {
      run();
      continue;
    }
    EXPECT_THAT(run, ThrowsMessage<ArgumentError>(HasSubstr("rank 1 has no samples in a step of epoch 1 of training")));
    world()->barrier();  // works on
  }
}

/// Sequences of 0 to 6 tokens, padded; ranks have different numbers of sequences and of tokens.
struct Sequences {
  enum class Carrier { kLoss, kBatch };

  static at::Tensor train(const std::shared_ptr<Communicator>& comm, Carrier carrier, std::int64_t accumulate,
                          double& logged) {
    constexpr std::int64_t kSteps = 6, kStepSamples = 12;
    torch::manual_seed(4);
    const at::Tensor x = torch::randn({kSteps * kStepSamples, 6, 3}), y = torch::randn({kSteps * kStepSamples, 6});
    const at::Tensor lengths = torch::arange(kSteps * kStepSamples) % 7;  // the first rank's first sequence is empty
    const at::Tensor mask = torch::arange(6).unsqueeze(0).lt(lengths.unsqueeze(1)).to(at::kFloat);
    const auto iterator = create_iterator(kSteps, [=](std::int64_t, std::int64_t step) {
      const auto bound = [&](std::int64_t r) { return kStepSamples * r * r / (comm->size() * comm->size()); };
      const std::int64_t begin = bound(comm->rank()), count = bound(comm->rank() + 1) - begin;
      const auto part = [&](const at::Tensor& all) { return all.narrow(0, step * kStepSamples + begin, count); };
      Batch batch{part(x), part(y), count, {}, {{.name = "mask", .values = part(mask)}}};
      if (carrier == Carrier::kBatch) batch.weight = part(mask).sum().item<double>();
      return batch;
    });
    const toy::TestFolder folder(world());
    torch::nn::Linear model(3, 1);
    std::shared_ptr<MultiNodeOptimizer> optimizer =
        create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), 0.3), comm);
    const auto loss = [&](const Batch& batch, Summary&) {
      const at::Tensor tokens = batch["mask"].sum();
      const at::Tensor errors = (model->forward(batch.data).squeeze(2) - batch.target).square() * batch["mask"];
      const at::Tensor mean = errors.sum() / tokens;
      return carrier == Carrier::kBatch ? Loss(mean) : Loss(mean, tokens.item<double>());
    };
    Trainer trainer(comm, optimizer, iterator, model.ptr(), loss,
                    {.epochs = 2, .accumulate = accumulate, .out = folder.path() / std::to_string(world()->rank())});
    const auto& log = trainer.extend(std::make_unique<extensions::LogReport>());
    trainer.extend(std::make_unique<extensions::FailOnNonNumber>(log));  // the mean over an empty sequence is NaN
    EXPECT_EQ(trainer.run(), 0);
    logged = log.last("main/loss");
    return torch::nn::utils::parameters_to_vector(model->parameters()).detach();
  }
};

TEST(LossWeight, MeansOverTokensTrainAsOnOneRank) {
  const auto alone = world()->split(world()->rank(), 0);
  for (const std::int64_t accumulate : {1, 3}) {
    double expected_loss = 0, loss = 0;
    const at::Tensor expected = Sequences::train(alone, Sequences::Carrier::kLoss, accumulate, expected_loss);
    for (const auto carrier : {Sequences::Carrier::kLoss, Sequences::Carrier::kBatch}) {
      const at::Tensor found = Sequences::train(world(), carrier, accumulate, loss);
      EXPECT_TRUE(torch::allclose(found, expected, 1e-4, 1e-5)) << found - expected;
      EXPECT_NEAR(loss, expected_loss, 1e-5);
    }
  }
}

/// A rank whose losses reach no parameter, such as an empty crop's, has its samples all the same.
TEST(LossWeight, OfLossesThatReachNoParameterCounts) {
  const at::Tensor p = torch::zeros({1}).requires_grad_(), elsewhere = torch::zeros({1}).requires_grad_();
  const auto optimizer = create_multi_node_optimizer(
      std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1)), world());
  optimizer->zero_grad();
  for (int part = 0; part < 2; ++part) {
    optimizer->scale_loss((world()->rank() == 0 ? p : elsewhere).sum(), 3, 2).backward();
  }
  optimizer->step(6);
  EXPECT_TRUE(torch::allclose(p, torch::full({1}, -1.0 / world()->size())));
}

/// Rank 0 mixes them: its gradient would have no weight that all of it shares.
TEST(LossWeight, OfSomeBackwardsOfAStepIsTheSameErrorOnAll) {
  const at::Tensor p = torch::zeros({1}).requires_grad_();
  const auto optimizer = create_multi_node_optimizer(
      std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1)), world());
  for (const bool plain_first : {false, true}) {
    optimizer->zero_grad();
    const bool mixes = world()->rank() == 0;
    if (mixes && plain_first) p.sum().backward();
    optimizer->scale_loss(p.sum(), 3).backward();
    if (mixes && !plain_first) p.sum().backward();
    EXPECT_THAT([&] { optimizer->step(3); },
                ThrowsMessage<ArgumentError>(HasSubstr("a backward of this step began at a loss without a weight")));
  }
  optimizer->zero_grad();
  optimizer->scale_loss(p.sum(), 3).backward();
  optimizer->step(3);
  EXPECT_TRUE(p.equal(torch::full({1}, -1.0))) << p;
}

TEST(LossWeight, HasToBeANumber) {
  torch::nn::Linear model(2, 1);
  const auto optimizer =
      create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), 0.1), world());
  for (const double weight : {-1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THAT([&] { static_cast<void>(optimizer->scale_loss(torch::ones({}).requires_grad_(), weight)); },
                ThrowsMessage<ArgumentError>(HasSubstr("must be at least 0 and finite")));
  }
}

}  // namespace
}  // namespace mn
