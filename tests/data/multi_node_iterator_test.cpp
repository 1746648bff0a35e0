// A rank's minibatches on all ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/loader/function_iterator.hpp>
#include <mn/loader/multi_node_iterator.hpp>
#include <mn/loader/tensor_dataset.hpp>

namespace mn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class MultiNodeIteratorTest : public ::testing::Test {
 protected:
  std::shared_ptr<Communicator> comm_ = create_communicator("flat", MPI_COMM_WORLD, {.device = Device{}});
  int root_ = comm_->size() - 1;

  /// On the root alone.
  [[nodiscard]] std::shared_ptr<Iterator> actual(const MakeBatch& make_batch) const {
    return comm_->rank() == root_ ? create_iterator(3, make_batch) : nullptr;
  }
};

Batch numbered(std::int64_t epoch, std::int64_t step) {
  const double number = static_cast<double>(10 * epoch + step);
  Batch batch{torch::full({2, 3}, number), torch::full({2}, step, torch::kLong), 2, {4, 5}};
  batch.fields.push_back({.name = "data", .values = batch.data});
  batch.fields.push_back(
      {.name = "words", .values = torch::arange(5), .offsets = torch::tensor({0, 2, 5}), .longest = 3});
  batch.weight = 5;
  return batch;
}

void expect_numbered(const std::optional<Batch>& batch, std::int64_t epoch, std::int64_t step) {
  ASSERT_TRUE(batch.has_value());
  const Batch wanted = numbered(epoch, step);
  EXPECT_TRUE(batch->data.equal(wanted.data)) << batch->data;
  EXPECT_TRUE(batch->target.equal(wanted.target));
  EXPECT_EQ(batch->samples, 2);
  EXPECT_EQ(batch->indices, wanted.indices);
  EXPECT_EQ(batch->weight, wanted.weight);
  EXPECT_TRUE(batch->field("data").values.is_same(batch->data)) << "it travels once";
  EXPECT_TRUE(batch->field("words").offsets.equal(wanted.field("words").offsets));
  EXPECT_EQ(batch->field("words").longest, 3);
}

TEST_F(MultiNodeIteratorTest, EveryRankHasTheRootsMinibatches) {
  const auto iterator = create_multi_node_iterator(actual(numbered), comm_, root_);
  EXPECT_EQ(iterator->steps_per_epoch(), 3);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t step = 0; step < 3; ++step) {
      EXPECT_NEAR(iterator->epoch_detail(), static_cast<double>(epoch) + static_cast<double>(step) / 3, 1e-12);
      expect_numbered(iterator->next(), epoch, step);
    }
    EXPECT_FALSE(iterator->next().has_value());
    EXPECT_EQ(iterator->epoch(), epoch + 1);
  }
}

TEST_F(MultiNodeIteratorTest, GoesOnFromTheRootsState) {
  const auto first = create_multi_node_iterator(actual(numbered), comm_, root_);
  for (int step = 0; step < 5; ++step) static_cast<void>(first->next());  // three, the end of the epoch, and one
  const nlohmann::json state = first->state();
  EXPECT_EQ(state.is_null(), comm_->rank() != root_);
  const auto second = create_multi_node_iterator(actual(numbered), comm_, root_);
  second->load_state(state);
  EXPECT_EQ(second->epoch(), 1);
  expect_numbered(second->next(), 1, 1);
}

TEST_F(MultiNodeIteratorTest, TheRootsErrorIsEveryRanks) {
  const auto iterator = create_multi_node_iterator(
      actual([](std::int64_t, std::int64_t) -> Batch { throw DataError("shard 3 is damaged"); }), comm_, root_);
  EXPECT_THAT([&] { static_cast<void>(iterator->next()); }, ThrowsMessage<DataError>(HasSubstr("shard 3 is damaged")));
  EXPECT_THAT([&] { static_cast<void>(create_multi_node_iterator(nullptr, comm_)); },
              ThrowsMessage<ArgumentError>(HasSubstr("needs an iterator on the root")));
}

/// Iterators of equal samples, each with a random order of its own.
TEST_F(MultiNodeIteratorTest, SynchronizedIteratorsHaveTheRootsOrder) {
  const auto alone = comm_->split(comm_->rank(), 0);
  const auto loader = [&](std::int64_t samples, std::int64_t seed) {
    const at::Tensor numbers = torch::arange(samples);
    return std::make_shared<TensorLoader>(
        TensorDataset(numbers, numbers), alone,
        TensorLoaderOptions{.batchsize = 5, .shuffle = true, .seed = static_cast<std::uint64_t>(seed)});
  };
  const auto own = loader(40, comm_->rank()), roots = loader(40, root_);
  static_cast<void>(roots->next());
  if (comm_->rank() == root_) static_cast<void>(own->next());
  const auto iterator = create_synchronized_iterator(own, *comm_, root_);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto batch = iterator->next(); batch; batch = iterator->next()) {
      const auto wanted = roots->next();
      ASSERT_TRUE(wanted && batch->data.equal(wanted->data)) << batch->data;
    }
    EXPECT_FALSE(roots->next().has_value());
  }
  EXPECT_THAT([&] { static_cast<void>(create_synchronized_iterator(comm_->rank() == root_ ? nullptr : own, *comm_)); },
              ThrowsMessage<ArgumentError>(
                  HasSubstr("rank " + std::to_string(root_) + ": create_synchronized_iterator needs")));
}

TEST_F(MultiNodeIteratorTest, SynchronizedIteratorsNeedEqualSamples_from_2_ranks) {
  const auto alone = comm_->split(comm_->rank(), 0);
  const at::Tensor numbers = torch::arange(comm_->rank() == 1 ? 30 : 40);
  const auto own =
      std::make_shared<TensorLoader>(TensorDataset(numbers, numbers), alone, TensorLoaderOptions{.batchsize = 5});
  EXPECT_THAT([&] { static_cast<void>(create_synchronized_iterator(own, *comm_)); },
              ThrowsMessage<ArgumentError>(HasSubstr("rank 1: create_synchronized_iterator: ")));
}

}  // namespace
}  // namespace mn
