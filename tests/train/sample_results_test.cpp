// Results of samples that ranks own in uneven parts and in any order.
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/loader/tensor_dataset.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/sample_results.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;
using toy::world;

constexpr std::int64_t kSamples = 11;

std::shared_ptr<TensorLoader> make_loader(bool shuffle) {
  const TensorDataset samples(torch::arange(kSamples), torch::arange(kSamples).mul(3));
  return std::make_shared<TensorLoader>(samples, world(), TensorLoaderOptions{.batchsize = 2, .shuffle = shuffle});
}

/// Sample i has i % 4 boxes (i, 0), (i, 1), …
at::Tensor boxes_of(std::int64_t sample) {
  return torch::stack({torch::full({sample % 4}, sample), torch::arange(sample % 4)}, 1).to(torch::kShort);
}

std::vector<BatchField> results_of(const Batch& batch) {
  std::vector<at::Tensor> boxes;
  for (const std::int64_t sample : batch.indices) boxes.push_back(boxes_of(sample));
  return {{"tripled", batch.target}, ragged_field("boxes", boxes), {"is even", batch.data.remainder(2).eq(0)}};
}

TEST(SampleResults, ComeInTheOrderOfSamplesWhateverTheRanks) {
  for (const bool shuffle : {false, true}) {
    const auto loader = make_loader(shuffle);
    SampleResults results;
    while (const auto batch = loader->next()) results.add(*batch, results_of(*batch));
    for (const bool again : {false, true}) {
      const Batch all = results.gather(*world());
      EXPECT_EQ(all.samples, world()->rank() == 0 && !again ? kSamples : 0) << "gather() forgets";
      if (all.samples == 0) continue;
      EXPECT_THAT(all.indices, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
      EXPECT_TRUE(all["tripled"].equal(torch::arange(kSamples).mul(3)));
      EXPECT_TRUE(all["is even"].equal(torch::arange(kSamples).remainder(2).eq(0)));
      EXPECT_TRUE(all.data.is_same(all["tripled"]));
      EXPECT_TRUE(all.target.is_same(all["boxes"]));
      const BatchField& boxes = all.field("boxes");
      EXPECT_EQ(boxes.longest, 3);
      EXPECT_EQ(boxes.values.sizes(), (std::vector<std::int64_t>{15, 2}));
      for (std::int64_t i = 0; i < kSamples; ++i) {
        const auto first = boxes.offsets[i].item<std::int64_t>(), last = boxes.offsets[i + 1].item<std::int64_t>();
        EXPECT_TRUE(boxes.values.slice(0, first, last).equal(boxes_of(i))) << i;
      }
    }
  }
}

Batch batch_of(std::vector<std::int64_t> samples) {
  Batch batch;
  batch.samples = std::ssize(samples);
  batch.indices = std::move(samples);
  return batch;
}

/// Rank r has samples 0 to r, so sample 0 is everywhere; with `skip`, rank 0 has none.
TEST(SampleResults, EachSampleComesOnceAndARankMayHaveNone) {
  for (const bool skip : {false, true}) {
    const std::int64_t count = skip && world()->rank() == 0 ? 0 : world()->rank() + 1;
    SampleResults results;
    std::vector<std::int64_t> samples(static_cast<std::size_t>(count));
    std::iota(samples.begin(), samples.end(), 0);
    const Batch batch = batch_of(samples);
    if (count > 0) results.add(batch, {{"value", torch::arange(count).to(torch::kHalf)}});
    const Batch all = results.gather(*world());
    if (world()->rank() > 0) continue;
    EXPECT_EQ(all.samples, skip && world()->size() == 1 ? 0 : world()->size());
    if (all.samples == 0) continue;
    EXPECT_TRUE(all["value"].equal(torch::arange(all.samples).to(torch::kHalf)));
  }
}

TEST(SampleResults, StayAsTheyWereAdded) {
  SampleResults results;
  const at::Tensor value = torch::zeros({1});  // used again for each minibatch
  for (int i = 0; i < 2; ++i) {
    value.fill_(i);
    results.add(batch_of({2 * world()->rank() + i}), {{"value", value}});
  }
  const Batch all = results.gather(*world());
  if (world()->rank() > 0) return;
  EXPECT_TRUE(all["value"].equal(torch::arange(2 * world()->size()).remainder(2).to(torch::kFloat)));
  EXPECT_EQ(ragged_field("boxes", {boxes_of(2), boxes_of(3), boxes_of(1)}).longest, 3);
}

TEST(SampleResults, OtherFieldsOnARankAreTheSameErrorOnAllRanks_from_2_ranks) {
  SampleResults results;
  const auto shape = world()->rank() == 1 ? std::vector<std::int64_t>{1, 4} : std::vector<std::int64_t>{1, 3};
  results.add(batch_of({world()->rank()}), {{"score", torch::zeros(shape)}});
  EXPECT_THAT([&] { static_cast<void>(results.gather(*world())); },
              ThrowsMessage<ArgumentError>("the results of rank 1 have other fields (score: Float [4]) than those of "
                                           "rank 0 (score: Float [3])"));
}

TEST(SampleResults, RejectsResultsOfOtherSamples) {
  const auto error_of = [](const Batch& batch, const std::vector<BatchField>& fields) {
    SampleResults results;
    results.add(batch_of({0}), {{"score", torch::zeros({1})}});
    try {
      results.add(batch, fields);
    } catch (const ArgumentError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Batch two = batch_of({1, 2});
  Batch unknown;
  unknown.samples = 2;
  const at::Tensor offsets = torch::tensor({0, 1, 3});
  EXPECT_THAT(error_of(unknown, {{"score", torch::zeros({2})}}), HasSubstr("have no Batch::indices"));
  EXPECT_THAT(error_of(two, {{"score", torch::zeros({3})}}), HasSubstr("are of 3 samples, but it has 2"));
  EXPECT_THAT(error_of(two, {{"score", torch::zeros({})}}), HasSubstr("have no first dimension"));
  EXPECT_THAT(error_of(two, {{"score", torch::zeros({4}), offsets}}), HasSubstr("have offsets up to 3 for 4 rows"));
  EXPECT_THAT(error_of(two, {{"score", torch::zeros({3}), offsets}}),
              HasSubstr("other fields (score: Float [\"any number\"]) than those before (score: Float [])"));
}

TEST(SampleResults, RowsThatCannotBecomeAFieldAreNamed) {
  const auto rejects = [](const std::vector<at::Tensor>& rows, const std::string& why) {
    EXPECT_THAT([&] { static_cast<void>(ragged_field("box", rows)); },
                ThrowsMessage<ArgumentError>(AllOf(HasSubstr("results \"box\" " + why), Not(HasSubstr("\n")))));
  };
  rejects({}, "are of no sample");
  const std::string wanted = "need a tensor [any number, …] for each sample, with equal rows: ";
  rejects({torch::zeros({})}, wanted + "Dimension specified as 0");
  rejects({torch::zeros({2, 4}), torch::zeros({2, 3})}, wanted + "Sizes of tensors must match");
  EXPECT_EQ(ragged_field("box", {torch::zeros({0}), boxes_of(2)}).longest, 2);
}

TEST(SampleResults, OfAValidationBecomeMetricsOnEveryRank) {
  const torch::nn::Linear model(1, 1);
  const auto ordered = [&](const Batch& all) {
    EXPECT_EQ(world()->rank(), 0);
    const bool is_ordered = all["tripled"].equal(torch::arange(kSamples).mul(3));
    return Metrics{{"ordered", is_ordered}, {"boxes", static_cast<double>(all["boxes"].size(0))}};
  };
  const auto evaluator = create_results_evaluator(make_loader(true), model.ptr(), results_of, ordered, world());
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(evaluator->evaluate(), ElementsAre(testing::Pair("boxes", 15), testing::Pair("ordered", 1)));
  }
  const auto failing = create_results_evaluator(
      make_loader(true), model.ptr(), results_of,
      [](const Batch&) -> Metrics { throw std::runtime_error("one class"); }, world());
  EXPECT_THAT([&] { static_cast<void>(failing->evaluate()); }, ThrowsMessage<ArgumentError>("one class"));
  EXPECT_THROW(create_results_evaluator(nullptr, model.ptr(), results_of, ordered, world()), ArgumentError);
}

}  // namespace
}  // namespace mn
