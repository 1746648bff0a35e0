// The examples in the headers of Dataset and DataLoader compile and run. docs_test compares them with the headers.
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/shard_writer.hpp>
#include <mn/data/subset.hpp>
#include <mn/loader/loader.hpp>
#include <mn/loader/scatter.hpp>

#include "tests/support/temporary_folder.hpp"

namespace {

constexpr std::int64_t kSamples = 60;

/// "mnist/train" in a folder of MN_DATA: samples 0, 1, … of two bytes, labels 0 to 9. On rank 0 alone.
class HeaderExamples : public testing::Test {
 protected:
  HeaderExamples() {
    setenv("MN_DATA", folder_.path().c_str(), 1);
    if (comm_->rank() > 0) return;
    mn::ShardWriter writer(folder_.path() / "mnist/train", mn::labeled({.shape = {2}}, 10));
    for (std::int64_t s = 0; s < kSamples; ++s) {
      const std::byte sample[] = {static_cast<std::byte>(s), {}};
      writer.add(sample, s % 10);
    }
    writer.finish();
  }
  ~HeaderExamples() override {
    comm_->barrier();  // other ranks read rank 0's folder
    unsetenv("MN_DATA");
  }

  mn::test::TemporaryFolder folder_;
  std::shared_ptr<mn::Communicator> comm_ = mn::create_communicator("flat", MPI_COMM_WORLD, {.device = mn::Device{}});
};

TEST_F(HeaderExamples, OfDataset_on_1_rank) {
  const auto digits = mn::open_dataset("mnist/train");
  const std::int64_t indices[] = {0, 1, 2};
  mn::RawSamples samples;
  digits->read(indices, samples);  // a column for each field: images and labels
  const auto labels = samples.columns[1].values<std::int64_t>();
  EXPECT_EQ(std::vector(labels.begin(), labels.end()), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST_F(HeaderExamples, OfSubset) {
  if (comm_->rank() > 0) return;
  const auto threes = mn::choose_subset(mn::open_dataset("mnist/train"), [](const mn::Dataset& digits) {
    std::vector<std::int64_t> all(digits.size()), chosen;
    std::iota(all.begin(), all.end(), 0);
    const mn::RawColumn labels = digits.read_field(all, 1);
    for (const std::int64_t i : all) {
      if (labels.values<std::int64_t>()[i] == 3) chosen.push_back(i);
    }
    return chosen;
  });
  EXPECT_EQ(threes->size(), kSamples / 10);
}

TEST_F(HeaderExamples, OfDataLoader) {
  const auto& comm = comm_;
  std::int64_t seen = 0;
  const auto step = [&](const torch::Tensor& data, const torch::Tensor& target) {
    EXPECT_EQ(data.size(0), target.size(0));
    seen += data.size(0);
  };
  auto train = mn::scatter_dataset(mn::open_dataset("mnist/train"), comm, {.shuffle = true});
  mn::DataLoader loader(train, {.batchsize = 20, .device = comm->device()});
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (const auto batch = loader.next()) step(batch->data, batch->target);
  }
  comm->allreduce(std::span(&seen, 1), mn::ReduceOp::kSum);
  EXPECT_EQ(seen, 2 * kSamples);
}

}  // namespace
