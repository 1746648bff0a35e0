#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/tensor/autocast.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using toy::bytes_of;
using toy::same_on_all;
using toy::ToyJob;
using toy::world;

constexpr GradScalerOptions kScaling = {.init_scale = 1024, .growth_interval = 3};

/// One weight, whose gradient is this rank's `gradient`.
struct OneWeight {
  at::Tensor weight = torch::zeros({1}).requires_grad_();
  std::unique_ptr<MultiNodeOptimizer> optimizer;

  explicit OneWeight(bool overlap, const GradScalerOptions& scaling = kScaling)
      : optimizer(create_multi_node_optimizer(
            std::make_unique<torch::optim::SGD>(std::vector{weight}, torch::optim::SGDOptions(1).momentum(0.5)),
            world(), {.overlap = overlap, .grad_scaler = scaling})) {}

  void step(double gradient, std::int64_t samples = 1) {
    optimizer->zero_grad();
    if (samples > 0) optimizer->scale_loss((weight * gradient).sum()).backward();
    optimizer->step(samples);
  }
};

class GradScalerTest : public ::testing::TestWithParam<bool> {};

TEST_P(GradScalerTest, TheUpdateIsThatOfTheLossItself) {
  OneWeight job(GetParam());
  job.step(world()->rank() + 1);
  EXPECT_DOUBLE_EQ(job.weight.item<double>(), -(world()->size() + 1) / 2.0);
}

TEST_P(GradScalerTest, AnOverflowOnOneRankIsLeftOutOnAll) {
  for (int bad = 0; bad < world()->size(); ++bad) {
    for (const double value : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      OneWeight job(GetParam());
      job.step(1);
      const double before = job.weight.item<double>();
      job.step(world()->rank() == bad ? value : 1);
      EXPECT_EQ(job.weight.item<double>(), before);
      EXPECT_EQ(job.optimizer->scaler()->scale(), 512);
      EXPECT_EQ(job.optimizer->scaler()->skipped(), 1);
      job.step(1);  // momentum is that of the first step alone
      EXPECT_DOUBLE_EQ(job.weight.item<double>(), before - 1.5);
    }
  }
}

TEST_P(GradScalerTest, TheScaleGrowsAfterGoodSteps) {
  OneWeight job(GetParam());
  for (int i = 0; i < 3; ++i) job.step(1);
  EXPECT_EQ(job.optimizer->scaler()->scale(), 2048);
  job.step(1);  // before an overflow: it does not count
  job.step(std::numeric_limits<double>::infinity());
  job.step(1);
  job.step(1);
  EXPECT_EQ(job.optimizer->scaler()->scale(), 1024);
  job.step(1);
  EXPECT_EQ(job.optimizer->scaler()->scale(), 2048);
}

/// As torch's: losses are multiplied by the number that gradients are divided by.
TEST_P(GradScalerTest, TheScaleIsAFloat32) {
  OneWeight job(GetParam(), {.init_scale = 1000.1, .growth_factor = 1.1, .growth_interval = 1});
  float scale = 1000.1F;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(job.optimizer->scaler()->scale(), scale) << i;
    job.step(1);
    scale = static_cast<float>(scale * 1.1);
  }
  job.step(std::numeric_limits<double>::infinity());
  EXPECT_EQ(job.optimizer->scaler()->scale(), scale * 0.5F);
}

/// The inverse of 2^-128 is not a float32.
TEST_P(GradScalerTest, AScaleThatOnlyFallsStopsAndIsSaid) {
  OneWeight job(GetParam());
  static_cast<void>(take_warnings());
  const auto overflow = [&](int steps) {
    for (int i = 0; i < steps; ++i) job.step(std::numeric_limits<double>::infinity());
    return take_warnings();
  };
  EXPECT_THAT(overflow(19), IsEmpty());
  job.step(1);
  EXPECT_THAT(overflow(19), IsEmpty());
  const std::vector<std::string> lines = overflow(1);
  if (world()->rank() == 0) {
    EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("20 steps in a row"), HasSubstr("the gradient of parameter 0"),
                                         HasSubstr("6.103515625e-05"))));
  }
  EXPECT_THAT(overflow(179), IsEmpty());
  EXPECT_EQ(overflow(1).size(), world()->rank() == 0 ? 1U : 0U);
  EXPECT_EQ(job.optimizer->scaler()->scale(), GradScaler::kMinScale);
  EXPECT_EQ(job.optimizer->scaler()->skipped(), 219);
  job.step(1);
  EXPECT_DOUBLE_EQ(job.weight.item<double>(), -1 - 1.5);
}

TEST_P(GradScalerTest, ARankWithoutSamplesStaysInStep_from_2_ranks) {
  OneWeight job(GetParam());
  job.step(1);
  job.step(3, world()->rank() == 0 ? 2 : 0);
  EXPECT_DOUBLE_EQ(job.weight.item<double>(), -1 - 0.5 - 3);
}

TEST_P(GradScalerTest, HooksAndClippingSeeTheTrueGradient) {
  OneWeight job(GetParam());
  double seen = 0;
  job.optimizer->add_hook("look", [&](const auto& parameters) { seen = parameters[0].grad().template item<double>(); });
  job.optimizer->zero_grad();
  job.optimizer->scale_loss(job.weight.sum() * 4).backward();
  EXPECT_DOUBLE_EQ(clip_grad_norm(*job.optimizer, 2), 4);
  job.optimizer->step();
  EXPECT_NEAR(seen, 2, 1e-5);
}

TEST_P(GradScalerTest, AForgottenScaleIsAnError) {
  for (const int good_steps : {0, 1}) {
    OneWeight job(GetParam());
    for (int i = 0; i < good_steps; ++i) job.step(1);
    job.optimizer->zero_grad();
    job.weight.sum().backward();
    EXPECT_THAT([&] { job.optimizer->step(); }, ThrowsMessage<UsageError>(HasSubstr("scale_loss(loss).backward()")));
  }
}

/// Two weights whose gradients travel as float16; the rate is 1, without momentum.
struct CompressedWeights {
  at::Tensor weights = torch::zeros({2}).requires_grad_();
  std::unique_ptr<MultiNodeOptimizer> optimizer;

  explicit CompressedWeights(bool overlap)
      : optimizer(create_multi_node_optimizer(
            std::make_unique<torch::optim::SGD>(std::vector{weights}, torch::optim::SGDOptions(1)), world(),
            {.overlap = overlap, .compression = {.kind = Compression::kFp16}, .grad_scaler = kScaling})) {}

  std::vector<double> step(double first, double second) {
    optimizer->zero_grad();
    optimizer->scale_loss((weights * torch::tensor({first, second})).sum()).backward();
    optimizer->step();
    return {weights[0].item<double>(), weights[1].item<double>()};
  }
};

TEST_P(GradScalerTest, WhatCompressionLostKeepsItsUnitsAndOverflowsAreSeen_from_2_ranks) {
  const double inf = std::numeric_limits<double>::infinity();
  const double more = 1 + std::ldexp(1, -12);  // float16 rounds it to 1
  CompressedWeights job(GetParam());
  EXPECT_THAT(job.step(more, 0), ElementsAre(-1, 0));
  EXPECT_THAT(job.step(inf, more), ElementsAre(-1, 0)) << "left out, and nothing of it is kept";
  EXPECT_EQ(job.optimizer->scaler()->scale(), 512);
  EXPECT_THAT(job.step(100, 200), ElementsAre(-1, 0)) << "102,400 is more than a float16 holds";
  EXPECT_EQ(job.optimizer->scaler()->scale(), 256);
  EXPECT_EQ(job.optimizer->scaler()->skipped(), 2);
  EXPECT_THAT(job.step(0, 0), ElementsAre(-more, 0));
}

INSTANTIATE_TEST_SUITE_P(Overlap, GradScalerTest, ::testing::Bool());

TEST(GradScalerOptionsTest, WhatKeepsGradientsIsRefused) {
  const std::vector<OptimizerOptions> refused = {
      {.double_buffering = true, .grad_scaler = kScaling},
      {.local_steps = 2, .grad_scaler = kScaling},
      {.compression = {.kind = Compression::kTopK}, .grad_scaler = kScaling},
      {.compression = {.kind = Compression::kPowerSgd}, .grad_scaler = kScaling}};
  for (const auto& options : refused) EXPECT_THROW(check_options(options), UsageError);
  EXPECT_THROW(GradScaler({.init_scale = 0}), UsageError);
  EXPECT_THROW(GradScaler({.backoff_factor = 1}), UsageError);
  EXPECT_THROW(GradScaler({.growth_interval = 0}), UsageError);
}

/// Now and then the gradients of one rank overflow.
void plant_overflows(ToyJob& job) {
  const int bad = world()->size() - 1;
  job.model->first->weight.register_hook([&trainer = *job.trainer, bad](const at::Tensor& gradient) {
    const bool now = trainer.iteration() % 5 == 3 && world()->rank() == bad;
    return now ? gradient * std::numeric_limits<float>::infinity() : gradient;
  });
}

/// A toy job with overflows: its parameters and scale after `iterations`, resumed after `stop` if not 0.
struct Half {
  std::string weights;
  double scale = 0;
  std::int64_t skipped = 0;
};
Half train_half(const std::filesystem::path& out, std::int64_t iterations, std::int64_t stop, bool overlap) {
  toy::ToyOptions options;
  options.optimizer = {
      .overlap = overlap, .grad_scaler = GradScalerOptions{.growth_interval = 4}, .deterministic = true};
  options.trainer = {.iterations = stop > 0 ? stop : iterations, .accumulate = 2, .out = out};
  auto job = std::make_unique<ToyJob>(world(), options);
  plant_overflows(*job);
  EXPECT_EQ(job->trainer->run(), 0);
  if (stop > 0) {
    job->trainer->save(out / "saved");
    options.trainer.iterations = iterations;
    job = std::make_unique<ToyJob>(world(), options);
    plant_overflows(*job);
    EXPECT_TRUE(job->trainer->resume((out / "saved").string()));
    EXPECT_EQ(job->trainer->run(), 0);
  }
  EXPECT_TRUE(same_on_all(bytes_of(job->model->parameters())));
  return {bytes_of(job->model->parameters()), job->trainer->optimizer().scaler()->scale(),
          job->trainer->optimizer().scaler()->skipped()};
}

TEST(GradScalerTrainer, ResumesBitForBitThroughOverflows) {
  const toy::TestFolder folder(world());
  for (const bool overlap : {false, true}) {
    const Half whole = train_half(folder.path() / "whole", 30, 0, overlap);
    EXPECT_GT(whole.skipped, 2);
    for (const std::int64_t stop : {2, 17}) {
      const Half resumed = train_half(folder.path() / "resumed", 30, stop, overlap);
      EXPECT_EQ(resumed.weights, whole.weights) << stop;
      EXPECT_EQ(resumed.scale, whole.scale);
      EXPECT_EQ(resumed.skipped, whole.skipped);
    }
  }
}

TEST(AutocastScopeTest, RunsProductsInItsTypeAndEnds) {
  const auto a = torch::randn({4, 4}), b = torch::randn({4, 4});
  const auto type_of = [&] { return torch::mm(a, b).scalar_type(); };
  EXPECT_EQ(type_of(), at::kFloat);
  {
    const AutocastScope outer(at::kBFloat16, Device());
    EXPECT_EQ(type_of(), at::kBFloat16);
    {
      const AutocastScope inner(at::kHalf, Device());
      EXPECT_EQ(type_of(), at::kHalf);
    }
    const AutocastScope nothing(std::nullopt, Device());
    EXPECT_EQ(type_of(), at::kBFloat16);
  }
  EXPECT_EQ(type_of(), at::kFloat);
}

}  // namespace
}  // namespace mn
