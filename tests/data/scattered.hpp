/// A dataset on one rank, and the dataset's parts by scatter_dataset.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/json.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/loader/scatter.hpp>

#include "tests/data/write_fixed_dataset.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {

inline constexpr std::int64_t kBytes = 6;

inline std::shared_ptr<MemoryDataset> make_dataset(std::int64_t n) {
  ByteBuffer data;
  std::vector<std::int64_t> labels(n);
  std::iota(labels.begin(), labels.end(), 0);
  for (const std::int64_t s : labels) {
    for (std::int64_t i = 0; i < kBytes; ++i) data.push_back(static_cast<std::byte>(s * 5 + i));
  }
  return std::make_shared<MemoryDataset>(labeled({.shape = {2, 3}}), labeled_samples(std::move(data), labels));
}

class Scatter : public testing::Test {
 protected:
  Scatter() : comm_(create_communicator("naive")) {
    // One folder for all ranks.
    std::string path;
    if (comm_->rank() == 0) {
      folder_ = std::make_unique<test::TemporaryFolder>();
      path = folder_->path().string();
    }
    path_ = comm_->bcast_obj(path);
  }
  ~Scatter() override { comm_->barrier(); }

  std::string shards(std::int64_t n) {
    const std::filesystem::path path = std::filesystem::path(path_) / std::to_string(n);
    if (comm_->rank() == 0) {
      data::write_fixed_dataset(*make_dataset(n), {.out = path, .split = "train", .shard_bytes = 64 * (kBytes + 8)},
                                {});
    }
    comm_->barrier();
    return path.string();
  }

  /// The labels (= numbers) of this rank's part; their bytes are checked.
  static std::vector<std::int64_t> samples_of(const Dataset& part) {
    std::vector<std::int64_t> indices(part.size());
    std::iota(indices.begin(), indices.end(), 0);
    RawSamples out;
    part.read(indices, out);
    const auto labels = out.columns[1].values<std::int64_t>();
    for (std::int64_t k = 0; k < out.size(); ++k) {
      for (std::int64_t i = 0; i < kBytes; ++i) {
        EXPECT_EQ(out.sample(0, k)[i], static_cast<std::byte>(labels[k] * 5 + i));
      }
    }
    return {labels.begin(), labels.end()};
  }

  /// The parts of all ranks, on every rank.
  std::vector<std::vector<std::int64_t>> all_parts(const std::vector<std::int64_t>& mine) {
    std::vector<std::vector<std::int64_t>> parts;
    for (const auto& part : comm_->allgather_obj(nlohmann::json(mine))) {
      parts.push_back(part.get<std::vector<std::int64_t>>());
    }
    return parts;
  }

  void check_parts(const std::shared_ptr<SubDataset>& part, std::int64_t n, const ScatterOptions& options) {
    const auto mine = samples_of(*part);
    const auto parts = all_parts(mine);
    EXPECT_EQ(part->global_size(), n);
    std::multiset<std::int64_t> unique;
    std::set<std::int64_t> covered;
    for (int rank = 0; rank < comm_->size(); ++rank) {
      const auto [first, last] = scatter_index(n, rank, comm_->size(), options.force_equal_length);
      EXPECT_EQ(static_cast<std::int64_t>(parts[rank].size()), last - first);
      if (!options.shuffle) {
        EXPECT_EQ(parts[rank].front(), first);
        EXPECT_EQ(parts[rank].back(), last - 1);
      }
      covered.insert(parts[rank].begin(), parts[rank].end());
      unique.insert(parts[rank].begin(), parts[rank].begin() + part->unique_size(rank));
    }
    EXPECT_EQ(static_cast<std::int64_t>(covered.size()), n) << "every sample is in a part";
    EXPECT_EQ(static_cast<std::int64_t>(unique.size()), n) << "unique parts cover each sample once";
    EXPECT_EQ(std::set<std::int64_t>(unique.begin(), unique.end()).size(), unique.size());
  }

  std::shared_ptr<Communicator> comm_;
  std::unique_ptr<test::TemporaryFolder> folder_;
  std::string path_;
};

}  // namespace mn
