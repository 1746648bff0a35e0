// The minibatches that mn::app makes of tensors, and of a dataset that every rank has: the same steps from both, on any
// number of ranks.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <mn/app/batches.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/data/function_dataset.hpp>

namespace mn::app {
namespace {

constexpr std::int64_t kSamples = 31;
constexpr std::int64_t kStep = 12;  // of all ranks together

using Steps = std::vector<std::vector<std::int64_t>>;

class BatchesTest : public testing::Test {
 protected:
  BatchesTest() { common_.batchsize = kStep / comm_->size(); }

  /// The samples of each step of an epoch, whose values are their numbers.
  Steps epoch_of(Iterator& batches) {
    Steps steps;
    while (const auto batch = batches.next()) {
      const at::Tensor values = batch->data.to(torch::kLong).contiguous();
      const auto* first = values.const_data_ptr<std::int64_t>();
      const nlohmann::json own(std::vector<std::int64_t>(first, first + values.numel()));
      auto& step = steps.emplace_back();
      for (const auto& part : comm_->allgather_obj(own)) {
        for (const auto& sample : part) step.push_back(sample.get<std::int64_t>());
      }
    }
    return steps;
  }
  static std::vector<std::size_t> sizes_of(const Steps& steps) {
    std::vector<std::size_t> sizes;
    for (const auto& step : steps) sizes.push_back(step.size());
    return sizes;
  }
  static std::vector<std::int64_t> sorted(const Steps& steps) {
    std::vector<std::int64_t> all;
    for (const auto& step : steps) all.insert(all.end(), step.begin(), step.end());
    std::ranges::sort(all);
    return all;
  }
  /// 31 samples in steps of 12: the last two share what is left.
  void expect_training(Iterator& whole, Iterator& dropped) {
    const Steps first = epoch_of(whole), second = epoch_of(whole);
    EXPECT_EQ(first.size(), 3U);
    EXPECT_EQ(first.front().size(), 12U);
    EXPECT_EQ(sorted(first), all_);
    EXPECT_EQ(sorted(second), all_);
    EXPECT_NE(first, second) << "an epoch has an order of its own";
    EXPECT_EQ(sizes_of(epoch_of(dropped)), (std::vector<std::size_t>{12, 12}));
  }

  std::shared_ptr<Communicator> comm_ = create_communicator("auto", MPI_COMM_WORLD, {.device = Device{}});
  CommonOptions common_;
  std::vector<std::int64_t> all_ = [] {
    std::vector<std::int64_t> all(kSamples);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }();
};

TEST(ValidationSetsTest, NamesStandBeforeDatasets) {
  using Sets = std::vector<std::pair<std::string, std::string>>;
  const auto sets_of = [](const std::string& value) {
    Sets found;
    std::vector<std::string> opened;
    const auto open = [&](const std::string& names) {
      opened.push_back(names);
      return std::shared_ptr<Iterator>();
    };
    for (const ValidationSet& set : validation_sets(value, open)) found.emplace_back(set.name, opened[found.size()]);
    return found;
  };
  EXPECT_EQ(sets_of("a"), (Sets{{"", "a"}}));
  EXPECT_EQ(sets_of("a,b"), (Sets{{"", "a,b"}}));
  EXPECT_EQ(sets_of("x=a,y=b=1"), (Sets{{"x", "a"}, {"y", "b=1"}}));
  EXPECT_EQ(sets_of("x=a,b,c@f.txt"), (Sets{{"", "b,c@f.txt"}, {"x", "a"}}));
  EXPECT_EQ(sets_of("runs/lr=0.1"), (Sets{{"", "runs/lr=0.1"}})) << "no name has a slash";
  EXPECT_THROW((void)sets_of("x=a,x=b"), UsageError);
}

TEST(ValidationSetsTest, NamesOfDatasetsStandBeforeFilesAndShares) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(dataset_names("a@f.txt:0.5,b:0.5"), (Names{"a", "b"}));
  EXPECT_EQ(dataset_names("/home/user@site/a"), (Names{"/home/user@site/a"}));
  EXPECT_EQ(dataset_names("c:1"), (Names{"c:1"})) << "a mixture has several datasets";
}

TEST_F(BatchesTest, OfTensors) {
  const TensorDataset samples(torch::arange(kSamples, torch::kFloat), torch::zeros({kSamples}));
  const auto whole = train_batches(samples, common_, comm_);
  const auto dropped = train_batches(samples, common_, comm_, {.drop_last = true});
  expect_training(*whole, *dropped);
  const auto validation = validation_batches(samples, common_, comm_);
  EXPECT_EQ(epoch_of(*validation), epoch_of(*validation));
}

TEST_F(BatchesTest, OfADatasetThatEveryRankHas) {
  const SampleSpec spec = {{{.name = "x", .dtype = DType::kFloat32}}};
  const auto samples = make_dataset(
      kSamples, spec, [](std::int64_t index, SampleWriter& sample) { sample.set("x", static_cast<float>(index)); });
  const auto whole = train_batches(samples, common_, comm_);
  const auto dropped = train_batches(samples, common_, comm_, {.drop_last = true});
  expect_training(*whole, *dropped);
  const auto validation = validation_batches(samples, common_, comm_);
  const Steps steps = epoch_of(*validation);
  EXPECT_EQ(sorted(steps), all_);
  EXPECT_EQ(steps, epoch_of(*validation));
}

}  // namespace
}  // namespace mn::app
