// Shared by the loader's tests: a dataset with each sample's number in the sample, and a rank's loader over the
// dataset.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/data/memory_dataset.hpp>
#include <mn/loader/loader.hpp>

#include "tests/data/write_fixed_dataset.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::test {

constexpr std::int64_t kSamples = 1003;

/// Sample s is {s mod 251, s div 251} as bytes, its label s.
inline std::shared_ptr<MemoryDataset> make_dataset(const std::vector<std::int64_t>& labels) {
  ByteBuffer data;
  for (const std::int64_t s : labels) {
    data.push_back(static_cast<std::byte>(s % 251));
    data.push_back(static_cast<std::byte>(s / 251));
  }
  return std::make_shared<MemoryDataset>(labeled({.shape = {1, 2}}, kSamples),
                                         labeled_samples(std::move(data), labels));
}

inline std::shared_ptr<MemoryDataset> make_dataset(std::int64_t first = 0, std::int64_t last = kSamples) {
  std::vector<std::int64_t> labels(static_cast<std::size_t>(last - first));
  std::iota(labels.begin(), labels.end(), first);
  return make_dataset(labels);
}

inline std::vector<std::int64_t> labels_of(const Batch& batch) {
  const auto* data = batch.target.data_ptr<std::int64_t>();
  return {data, data + batch.samples};
}

/// Each label has its sample's bytes.
inline void check(const Batch& batch) {
  EXPECT_EQ(batch.data.sizes(), (std::vector<std::int64_t>{batch.samples, 1, 2}));
  EXPECT_EQ(batch.data.scalar_type(), at::kFloat);
  EXPECT_EQ(batch.target.sizes(), std::vector<std::int64_t>{batch.samples});
  const auto labels = labels_of(batch);
  const float* values = batch.data.data_ptr<float>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    EXPECT_EQ(values[2 * i], static_cast<float>(labels[i] % 251) / 255.0f);
    EXPECT_EQ(values[2 * i + 1], static_cast<float>(labels[i] / 251) / 255.0f);
  }
}

using Epoch = std::vector<std::vector<std::int64_t>>;

inline Epoch read_epoch(DataLoader& loader) {
  Epoch epoch;
  while (const auto batch = loader.next()) {
    check(*batch);
    epoch.push_back(labels_of(*batch));
    EXPECT_EQ(batch->indices, epoch.back());
  }
  return epoch;
}

class Loader : public testing::Test {
 protected:
  Loader() { data::write_fixed_dataset(*make_dataset(), {.out = path(), .split = "train", .shard_bytes = 1280}, {}); }
  std::string path() const { return (folder_.path() / "shards").string(); }

  /// Rank `rank`'s loader, over shards or over its part in memory.
  std::unique_ptr<DataLoader> loader(bool shards, int rank, int ranks, LoaderOptions options) {
    const ScatterOptions scatter{.shuffle = true, .seed = 4};
    std::shared_ptr<const SubDataset> part;
    if (shards) {
      part = std::make_shared<SubDataset>(std::shared_ptr<const Dataset>(open_dataset(path())), rank, ranks, scatter);
    } else {
      const auto samples = make_dataset(part_indices(kSamples, rank, ranks, scatter));
      part = std::make_shared<SubDataset>(ScatteredPart{samples, kSamples, 77}, rank, ranks, scatter);
    }
    return std::make_unique<DataLoader>(part, std::move(options));
  }

  TemporaryFolder folder_;
};

}  // namespace mn::test
