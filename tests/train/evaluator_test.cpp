// Evaluators over ranks that own different numbers of samples.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/loader/function_iterator.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extension.hpp>

namespace mn {
namespace {

/// Batches of 2 over the samples that this rank owns, values first, first + 1, …
class CountingIterator : public Iterator {
 public:
  CountingIterator(std::int64_t first, std::int64_t last) : first_(first), next_(first), last_(last) {}
  std::optional<Batch> next() override {
    if (next_ >= last_) {
      next_ = first_;
      ++epoch_;
      return std::nullopt;
    }
    const std::int64_t end = std::min(next_ + 2, last_);
    Batch batch{torch::arange(next_, end).to(torch::kFloat), torch::zeros({end - next_}, torch::kLong), end - next_};
    next_ = end;
    return batch;
  }
  std::int64_t epoch() const override { return epoch_; }
  double epoch_detail() const override { return static_cast<double>(epoch_); }
  std::int64_t steps_per_epoch() const override { return (last_ - first_ + 1) / 2; }
  nlohmann::json state() const override { return {}; }
  void load_state(const nlohmann::json&) override {}
  double data_wait_s() const override { return 0; }

 private:
  std::int64_t first_, next_, last_, epoch_ = 0;
};

using testing::HasSubstr;
using testing::ThrowsMessage;

class EvaluatorTest : public testing::Test {
 protected:
  std::shared_ptr<Communicator> comm_ = create_communicator("naive", MPI_COMM_WORLD, {.device = Device{}});
};

/// Training goes on as if it had not begun.
TEST_F(EvaluatorTest, OneThatIsInterruptedTakesNoRandomNumbers) {
  const auto make = [](std::int64_t, std::int64_t) { return Batch{torch::rand({2, 1}), torch::zeros({2}), 2}; };
  const auto iterator = create_iterator(4, make);
  const auto evaluator = create_multi_node_evaluator(
      create_evaluator(iterator, std::make_shared<torch::nn::LinearImpl>(1, 1), [](const Batch&, Summary&) {}), comm_);
  evaluator->set_pauses([part = 0](bool) mutable {
    if (++part == 3) throw Interrupted();
  });
  const nlohmann::json state = iterator->state();
  const std::uint64_t random = random_state_hash(comm_->device());
  EXPECT_THROW(static_cast<void>(evaluator->evaluate()), Interrupted);
  EXPECT_EQ(iterator->state(), state);
  EXPECT_EQ(random_state_hash(comm_->device()), random);
}

TEST_F(EvaluatorTest, WeighsEachSampleOnce) {
  // Rank r owns r samples: rank 0 has none at all, the others differ.
  const std::int64_t rank = comm_->rank();
  const std::int64_t first = rank * (rank - 1) / 2;
  const auto model = std::make_shared<torch::nn::LinearImpl>(1, 1);
  const auto evaluator = create_multi_node_evaluator(
      create_evaluator(std::make_shared<CountingIterator>(first, first + rank), model,
                       [&](const Batch& batch, Summary& report) {
                         EXPECT_FALSE(model->is_training());
                         EXPECT_FALSE(torch::GradMode::is_enabled());
                         report.add("value", batch.data.mean().item<double>(), static_cast<double>(batch.samples));
                       }),
      comm_);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const Metrics metrics = evaluator->evaluate();
    const int total = comm_->size() * (comm_->size() - 1) / 2;
    if (total == 0) {
      EXPECT_TRUE(metrics.empty());
    } else {
      EXPECT_DOUBLE_EQ(metrics.at("value"), (total - 1) / 2.0);
    }
    EXPECT_TRUE(model->is_training());
  }
}

TEST_F(EvaluatorTest, TakesCustomEvaluators) {
  struct Custom : Evaluator {
    int rank;
    explicit Custom(int r) : rank(r) {}
    Summary evaluate_local() override {
      Summary summary;
      summary.add("rank", rank, rank + 1);
      if (rank == 0) summary.add("only on rank 0", 5);
      return summary;
    }
  };
  const auto evaluator = create_multi_node_evaluator(std::make_unique<Custom>(comm_->rank()), comm_);
  double weighted = 0;
  double weights = 0;
  for (int r = 0; r < comm_->size(); ++r) {
    weighted += r * (r + 1);
    weights += r + 1;
  }
  const Metrics metrics = evaluator->evaluate();
  EXPECT_DOUBLE_EQ(metrics.at("rank"), weighted / weights);
  EXPECT_DOUBLE_EQ(metrics.at("only on rank 0"), 5);
}

TEST_F(EvaluatorTest, AggregatesMetricsThatAreNotAveragesOnRankZero) {
  // Rank r owns r + 1 samples, in batches of 2.
  const std::int64_t rank = comm_->rank();
  const std::int64_t first = rank * (rank + 1) / 2;
  const std::int64_t total = comm_->size() * (comm_->size() + 1) / 2;
  const auto model = std::make_shared<torch::nn::LinearImpl>(1, 1);
  std::vector<double> seen;
  const auto median_of = [&](const std::vector<nlohmann::json>& values) {
    seen.clear();
    for (const auto& value : values) {
      for (const double x : value) seen.push_back(x);
    }
    return Metrics{{"largest", seen.back()}, {"median", seen[(seen.size() - 1) / 2]}, {"nothing", NAN}};
  };
  const auto values_of = [&](const Batch& batch) {
    EXPECT_FALSE(model->is_training());
    return nlohmann::json(
        std::vector<float>(batch.data.const_data_ptr<float>(), batch.data.const_data_ptr<float>() + batch.samples));
  };
  const auto evaluator = create_generic_multi_node_evaluator(
      std::make_shared<CountingIterator>(first, first + rank + 1), model, values_of, median_of, comm_);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const Metrics metrics = evaluator->evaluate();
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(rank == 0 ? total : 0)) << "rank 0 alone aggregates";
    EXPECT_DOUBLE_EQ(metrics.at("largest"), static_cast<double>(total - 1));
    EXPECT_DOUBLE_EQ(metrics.at("median"), static_cast<double>((total - 1) / 2));
    EXPECT_TRUE(std::isnan(metrics.at("nothing")));
  }
  EXPECT_DOUBLE_EQ(evaluator->evaluate_local().mean().at("largest"), static_cast<double>(first + rank));

  const auto failing = create_generic_multi_node_evaluator(
      std::make_shared<CountingIterator>(first, first + rank + 1), model, values_of,
      [](const auto&) -> Metrics { throw std::runtime_error("one class alone"); }, comm_);
  EXPECT_THROW(static_cast<void>(failing->evaluate()), ArgumentError);
}

/// The others would wait for it in the collective calls of what evaluates. All ranks throw, and nothing was sent.
TEST_F(EvaluatorTest, NamesARankWithoutSamplesInTheFirstMinibatch_from_2_ranks) {
  const torch::nn::Linear model(1, 1);
  const std::int64_t own = comm_->rank() == 1 ? 0 : 4;
  const std::function<std::shared_ptr<Iterator>()> kinds[] = {
      [&] { return std::make_shared<CountingIterator>(0, own); },  // without any minibatch
      [&] {
        return create_iterator(2, [own](std::int64_t, std::int64_t step) {
          return Batch{torch::ones({step == 0 ? own : 1}), torch::ones({step == 0 ? own : 1}), step == 0 ? own : 1};
        });
      }};
  for (const auto& make_iterator : kinds) {
    const auto averages = create_multi_node_evaluator(
        create_evaluator(make_iterator(), model.ptr(), [&](const Batch&, Summary&) { comm_->barrier(); }), comm_);
    const auto values_of = [&](const Batch&) {
      comm_->barrier();
      return nlohmann::json(1);
    };
    const auto generic = create_generic_multi_node_evaluator(
        make_iterator(), model.ptr(), values_of, [](const auto&) { return Metrics(); }, comm_);
    for (Evaluator* each : {averages.get(), generic.get()}) {
      EXPECT_THAT([&] { static_cast<void>(each->evaluate()); },
                  ThrowsMessage<ArgumentError>(HasSubstr("rank 1 has no samples in a step of epoch 1 of evaluation")));
    }
    comm_->barrier();  // works on
  }
}

TEST_F(EvaluatorTest, SummaryKeepsItsStateAndPrefixes) {
  Summary summary;
  summary.add("loss", 2, 3);
  summary.add("loss", 4, 1);
  summary.add("loss", 100, 0);
  Summary restored;
  restored.load_state(summary.state());
  Summary prefixed;
  prefixed.merge(restored, "validation/");
  EXPECT_DOUBLE_EQ(prefixed.mean().at("validation/loss"), 2.5);
}

}  // namespace
}  // namespace mn
