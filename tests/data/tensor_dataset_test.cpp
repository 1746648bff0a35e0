// Samples in tensors, and iterators made of one function.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/loader/function_iterator.hpp>
#include <mn/loader/tensor_dataset.hpp>

namespace mn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kRows = 53;
constexpr std::int64_t kGlobalBatch = 12;  // 1, 2, 3 and 4 ranks divide it

std::shared_ptr<Communicator> world() {
  static const auto comm = create_communicator("flat", MPI_COMM_WORLD, {.device = Device{}});
  return comm;
}

/// An input of three numbers, a regression target, and a third field of another dtype; all tell the sample.
TensorDataset three_fields() {
  const at::Tensor number = torch::arange(kRows);
  return TensorDataset({number.to(torch::kFloat).unsqueeze(1).expand({kRows, 3}), number.to(torch::kDouble) / 2,
                        number.to(torch::kInt).view({kRows, 1, 1})},
                       {"data", "half"});
}

TensorLoaderOptions options_for(const Communicator& comm) {
  return {.batchsize = kGlobalBatch / comm.size(), .shuffle = true, .seed = 3};
}

/// The samples of each of the next `steps` steps over all ranks, sorted; checks that the fields belong together.
std::vector<std::vector<std::int64_t>> samples_of(Iterator& loader, Communicator& comm, int steps) {
  std::vector<std::vector<std::int64_t>> all;
  while (static_cast<int>(all.size()) < steps) {
    const auto batch = loader.next();
    if (!batch) continue;
    EXPECT_EQ(batch->data.sizes(), (std::vector<std::int64_t>{batch->samples, 3}));
    EXPECT_EQ(batch->target.dtype(), torch::kDouble);
    EXPECT_EQ(batch->fields.size(), 3U);
    EXPECT_TRUE(batch->data.is_same((*batch)["data"]));
    EXPECT_TRUE(batch->target.is_same((*batch)["half"]));
    EXPECT_EQ((*batch)[2].dtype(), torch::kInt);
    EXPECT_TRUE((*batch)["2"].view({-1}).to(torch::kDouble).equal(batch->target * 2));
    EXPECT_TRUE(batch->data.select(1, 2).to(torch::kDouble).equal(batch->target * 2));
    std::vector<std::int64_t> step;
    for (const auto& theirs : comm.allgather_obj(nlohmann::json(batch->indices))) {
      step.insert(step.end(), theirs.begin(), theirs.end());
    }
    EXPECT_TRUE(torch::tensor(batch->indices, torch::kDouble).equal(batch->target * 2));
    std::sort(step.begin(), step.end());
    all.push_back(std::move(step));
  }
  return all;
}

TEST(TensorLoader, StepsHoldTheSameSamplesForAnyNumberOfRanks) {
  const auto alone = world()->split(world()->rank(), 0);
  TensorLoader many(three_fields(), world(), options_for(*world()));
  TensorLoader one(three_fields(), alone, options_for(*alone));
  const auto steps = samples_of(many, *world(), 10);  // two epochs of five
  EXPECT_EQ(steps, samples_of(one, *alone, 10));
  EXPECT_NE(steps[0], steps[5]);
  for (const int first : {0, 5}) {
    std::set<std::int64_t> epoch;
    for (int k = first; k < first + 5; ++k) epoch.insert(steps[k].begin(), steps[k].end());
    EXPECT_EQ(epoch.size(), static_cast<std::size_t>(kRows));
  }
  EXPECT_EQ(many.epoch(), 2);
  EXPECT_EQ(many.steps_per_epoch(), 5);
  EXPECT_EQ(many.ranks(), world()->size());
}

TEST(TensorLoader, ResumesOnAnyNumberOfRanks) {
  const auto alone = world()->split(world()->rank(), 0);
  TensorLoader many(three_fields(), world(), options_for(*world()));
  samples_of(many, *world(), 7);
  TensorLoader one(three_fields(), alone, options_for(*alone));
  one.load_state(many.state());
  EXPECT_EQ(one.epoch_detail(), many.epoch_detail());
  EXPECT_EQ(samples_of(one, *alone, 6), samples_of(many, *world(), 6));
  TensorLoader other(TensorDataset(torch::zeros({kRows, 3}), torch::zeros({kRows})), alone, {});
  EXPECT_THROW(other.load_state(many.state()), DataError);
}

TEST(TensorLoader, RankZeroMaySendWhatItHas) {
  const bool first = world()->rank() == 0;
  TensorLoader sent(first ? three_fields() : TensorDataset(), world(), options_for(*world()));
  TensorLoader everywhere(three_fields(), world(), options_for(*world()));
  EXPECT_EQ(samples_of(sent, *world(), 5), samples_of(everywhere, *world(), 5));
  EXPECT_EQ(sent.state(), everywhere.state());
}

TEST(TensorLoader, SamplesThatDifferAreTheSameErrorOnAllRanks_from_2_ranks) {
  const bool last = world()->rank() == world()->size() - 1;
  const auto make = [](TensorDataset dataset) { TensorLoader(std::move(dataset), world(), {}); };
  const auto differ = ThrowsMessage<ArgumentError>(HasSubstr("different samples"));
  EXPECT_THAT([&] { make(TensorDataset({torch::full({9, 2}, last ? 1.0 : 0.0)})); }, differ);
  EXPECT_THAT([&] { make(last ? TensorDataset({torch::zeros({9, 2})}) : TensorDataset()); }, differ);
}

TEST(TensorDatasetTest, FieldsCountTheSameSamples) {
  EXPECT_THAT(
      [] {
        TensorDataset(torch::zeros({5, 2}), torch::zeros({4}));
      },
      ThrowsMessage<ArgumentError>(HasSubstr("one has 5 and another 4")));
  EXPECT_THROW(TensorDataset(std::vector<at::Tensor>{}), ArgumentError);
  EXPECT_THROW(TensorDataset({torch::tensor(1.0)}), ArgumentError);
}

/// Steps as "epoch.step", a bar for the end of an epoch.
std::string walk(Iterator& iterator, int calls) {
  std::string text;
  while (calls-- > 0) {
    const auto batch = iterator.next();
    text += batch ? std::to_string(batch->target[0].item<std::int64_t>()) + "." +
                        std::to_string(batch->target[1].item<std::int64_t>()) + " "
                  : std::string("| ");
  }
  return text;
}

std::shared_ptr<Iterator> counting_iterator(std::int64_t steps) {
  return create_iterator(steps, [](std::int64_t epoch, std::int64_t step) {
    return Batch{torch::zeros({2, 4}), torch::tensor({epoch, step})};
  });
}

TEST(CreateIterator, OneFunctionMakesEpochs) {
  const auto iterator = counting_iterator(3);
  EXPECT_EQ(iterator->next()->samples, 2);
  EXPECT_EQ(walk(*iterator, 7), "0.1 0.2 | 1.0 1.1 1.2 | ");
  EXPECT_EQ(iterator->epoch(), 2);
  EXPECT_EQ(iterator->steps_per_epoch(), 3);
  EXPECT_EQ(walk(*iterator, 1), "2.0 ");
  EXPECT_DOUBLE_EQ(iterator->epoch_detail(), 2 + 1.0 / 3);
  EXPECT_THROW(create_iterator(0, [](auto, auto) { return Batch(); }), ArgumentError);
  EXPECT_THROW(create_iterator(1, {}), ArgumentError);
}

TEST(CreateIterator, Resumes) {
  const auto iterator = counting_iterator(4);
  walk(*iterator, 7);  // an epoch and two steps
  const auto same = counting_iterator(4);
  same->load_state(iterator->state());
  EXPECT_EQ(walk(*same, 3), "1.2 1.3 | ");
  const auto finer = counting_iterator(8);
  finer->load_state(iterator->state());
  EXPECT_EQ(walk(*finer, 2), "1.4 1.5 ");
  const auto coarse = counting_iterator(1);
  coarse->load_state(iterator->state());
  EXPECT_EQ(walk(*coarse, 2), "1.0 | ");
}

}  // namespace
}  // namespace mn
