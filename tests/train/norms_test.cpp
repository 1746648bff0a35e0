// Norms of gradients, weights and updates, equal on all ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/optimizers/grad_scaler.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/norms.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::ElementsAre;
using toy::same_on_all;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

class NormsTest : public testing::Test {
 protected:
  TestFolder folder_{world()};
  toy::ToyOptions options_ = {.sgd = true, .trainer = {.iterations = 1, .out = folder_.path()}};
};

TEST_F(NormsTest, OfTheMeanGradientBeforeHooksAndOfTheUpdate) {
  double unclipped = 0;
  for (const bool clips : {false, true}) {
    ToyJob job(world(), options_);
    if (clips) job.trainer->optimizer().add_hook("clip", gradient_clipping(1e-3));
    job.trainer->extend(std::make_unique<extensions::Norms>(1));
    const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>());
    const at::Tensor before = job.weights();
    EXPECT_EQ(job.trainer->run(), 0);
    const double weight = before.norm().item<double>(), update = (job.weights() - before).norm().item<double>();
    EXPECT_NEAR(log.last("weight_norm"), weight, 1e-6 * weight);
    EXPECT_NEAR(log.last("update_ratio"), update / weight, 1e-4 * update / weight);
    const double gradient = log.last("gradient_norm");  // the first step of SGD: rate 0.1 times the gradient
    EXPECT_NEAR(update, clips ? 1e-4 : 0.1 * gradient, 1e-3 * update);
    EXPECT_TRUE(same_on_all(std::to_string(gradient)));
    EXPECT_EQ(gradient, clips ? unclipped : gradient);
    unclipped = gradient;
  }
}

TEST_F(NormsTest, ComeEverySoManyIterationsAndLeaveNoHook) {
  options_.trainer.iterations = 5;
  std::vector<bool> seen;
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Norms>(2));
  const auto& log =
      job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(1, "iteration")});
  EXPECT_EQ(job.trainer->run(), 0);
  for (const auto& entry : log.entries()) seen.push_back(entry.contains("gradient_norm"));
  EXPECT_THAT(seen, ElementsAre(false, true, false, true, false));
  const auto optimizer = job.trainer->optimizers().front().optimizer;
  EXPECT_EQ(job.trainer->run(), 0) << "a second run adds no second hook";
  job.trainer.reset();
  EXPECT_THROW(optimizer->remove_hook("mn::extensions::Norms"), ArgumentError);
}

TEST_F(NormsTest, AreMeansSinceTheLastReportAlsoAfterAResume) {
  const auto norms_of = [&](const Interval& period, std::int64_t iterations) {
    options_.trainer.iterations = iterations;
    ToyJob job(world(), options_);
    job.trainer->extend(std::make_unique<extensions::Norms>(1));
    const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = period});
    (void)job.trainer->resume("auto");
    EXPECT_EQ(job.trainer->run(), 0);
    if (iterations == 2) job.trainer->save(checkpoint_path(folder_.path(), 2));
    std::vector<double> norms;
    for (const auto& entry : log.entries()) norms.push_back(entry.at("gradient_norm").get<double>());
    return norms;
  };
  const std::vector<double> each = norms_of({1, IntervalUnit::kIteration}, 3);
  const double mean = (each[0] + each[1] + each[2]) / 3;
  (void)norms_of({3, IntervalUnit::kIteration}, 2);
  EXPECT_THAT(norms_of({3, IntervalUnit::kIteration}, 3), ElementsAre(testing::DoubleNear(mean, 1e-5 * mean)));
}

TEST_F(NormsTest, AnUpdateThatOverflowsIsCountedAndHasNone) {
  const auto model = std::make_shared<toy::ToyNet>(false);
  const auto loss = [model, step = 0](const Batch& batch, Summary&) mutable {
    return model->forward(batch.data).pow(2).mean() / (++step == 2 ? 0 : 1);
  };
  Trainer trainer(world(),
                  create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), 0.1), world(),
                                              {.grad_scaler = GradScalerOptions{}}),
                  std::make_shared<toy::ToyIterator>(50, 4, *world()), model, loss,
                  {.iterations = 3, .out = folder_.path()});
  trainer.extend(std::make_unique<extensions::Norms>(1));
  const auto& log = trainer.extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(1, "iteration")});
  EXPECT_EQ(trainer.run(), 0);
  std::vector<double> skipped;
  std::vector<bool> seen;
  for (const auto& entry : log.entries()) {
    skipped.push_back(entry.at("skipped_steps").get<double>());
    seen.push_back(entry.contains("gradient_norm"));
  }
  EXPECT_THAT(skipped, ElementsAre(0, 1, 1));
  EXPECT_THAT(seen, ElementsAre(true, false, true));
}

TEST_F(NormsTest, ExcludesLocalSteps) {
  EXPECT_THROW(extensions::Norms(0), UsageError);
  options_.optimizer.local_steps = 2;
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Norms>());
  EXPECT_THROW(static_cast<void>(job.trainer->run()), UsageError);
}

}  // namespace
}  // namespace mn
