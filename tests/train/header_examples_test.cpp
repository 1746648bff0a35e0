// The examples of use in the headers extension.hpp and evaluator.hpp; docs_test compares the text.
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/validation.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::TestFolder;
using toy::ToyIterator;
using toy::ToyJob;
using toy::world;

TEST(HeaderExamplesTest, AnExtension) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 3, .out = folder.path()}});
  Trainer& trainer = *job.trainer;
  const auto& log = trainer.extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(3, "iteration")});
  class CountUpdates final : public Extension {
    std::string name() const override { return "CountUpdates"; }
    void run(Trainer& trainer) override { trainer.report("updates", static_cast<double>(++updates_)); }
    nlohmann::json state() const override { return updates_; }  // in each checkpoint
    void load_state(const nlohmann::json& state) override { updates_ = state.get<std::int64_t>(); }
    std::int64_t updates_ = 0;
  };
  trainer.extend(std::make_unique<CountUpdates>());
  EXPECT_EQ(trainer.run(), 0);
  EXPECT_EQ(log.last("updates"), 3);
}

TEST(HeaderExamplesTest, AnEvaluator) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 3, .out = folder.path()}});
  Trainer& trainer = *job.trainer;
  const auto& log = trainer.extend(std::make_unique<extensions::LogReport>());
  const auto comm = world();
  const auto iterator = std::make_shared<ToyIterator>(30, 4, *comm);
  torch::nn::Sequential model(torch::nn::Linear(6, 3));
  const auto evaluate = [model](const Batch& batch, Summary& report) mutable {
    const at::Tensor is_correct = model->forward(batch.data).argmax(1).eq(batch.target);
    report.add("accuracy", is_correct.to(at::kFloat).mean(), static_cast<double>(batch.samples));
  };
  auto evaluator = create_multi_node_evaluator(create_evaluator(iterator, model.ptr(), evaluate), comm);
  const Metrics over_all_ranks = evaluator->evaluate();
  trainer.extend(std::make_unique<extensions::Validation>(std::move(evaluator)));
  EXPECT_EQ(over_all_ranks.size(), 1U);
  EXPECT_EQ(trainer.run(), 0);
  EXPECT_TRUE(log.entries().back().contains("validation/main/accuracy"));
}

}  // namespace
}  // namespace mn
