// Files are read while the workers of a loader transform.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/loader/loader.hpp>

#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

TEST_F(Shards, ABatchIsReadWhileTheOneBeforeIsTransformed) {
  make_fixed_shards(path_, 300);  // shards of 128, a batch each
  const std::shared_ptr<const Dataset> dataset = open_dataset(path_.string());
  std::atomic<bool> was_read = false;
  LoaderOptions options{.batchsize = 128, .shuffle = false, .workers = 1};
  options.transform = [&](const RawBatch& batch, std::vector<SampleError>&) {
    if (batch.indices[0] != 0) return torch::zeros({1});
    for (int i = 0; dataset->io().opens < 2 && i < 20'000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    was_read = dataset->io().opens >= 2;
    return torch::zeros({1});
  };
  DataLoader loader(dataset, options);
  EXPECT_TRUE(loader.next());
  EXPECT_TRUE(was_read);
}

TEST_F(Shards, AreTransformedByNoMoreThreadsThanWorkers) {
  make_fixed_shards(path_, 300);
  std::atomic<int> now = 0, most = 0;
  LoaderOptions options{.batchsize = 10, .shuffle = true, .workers = 2, .prefetch = 8};
  options.transform = [&](const RawBatch&, std::vector<SampleError>&) {
    const int together = ++now;
    int before = most;
    while (before < together && !most.compare_exchange_weak(before, together)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --now;
    return torch::zeros({1});
  };
  DataLoader loader(std::shared_ptr<const Dataset>(open_dataset(path_.string())), options);
  while (loader.next()) {
  }
  EXPECT_LE(most, 2);
}

}  // namespace
}  // namespace mn::data
