/// Converters: other formats → a folder of shards with a manifest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <mn/data/dataset.hpp>
#include <mn/data/manifest.hpp>

namespace mn::data {

struct ConvertOptions {
  std::filesystem::path out;  ///< the dataset's folder; made if absent
  std::string split = "train";
  std::int64_t shard_bytes = std::int64_t{256} << 20;  ///< samples go into shards of about this size
};

/// Throws UsageError if the folder holds a dataset already; makes the folder if there is none.
void prepare_output(const std::filesystem::path& out);

/// Writes a dataset of fixed samples as shards, in order, and then its manifest. `attributes` go into every shard.
ShardTable write_fixed_dataset(const Dataset& dataset, const ConvertOptions& options,
                               std::map<std::string, std::string> attributes);

/// A pair of IDX files, raw or gzip.
ShardTable convert_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                       const ConvertOptions& options);

struct IdxPair {
  std::string split;  ///< "train" or "val"
  std::filesystem::path images;
  std::filesystem::path labels;
};
/// MNIST's four files in `folder`: train-images-idx3-ubyte[.gz], …; t10k-… is split "val". Throws DataError that names
/// what is missing.
[[nodiscard]] std::vector<IdxPair> find_idx_pairs(const std::filesystem::path& folder);

/// CIFAR-10 or CIFAR-100, binary version, in `folder` → options.out/train and options.out/val; samples {3, 32, 32}.
std::vector<ShardTable> convert_cifar(const std::filesystem::path& folder, const ConvertOptions& options);

}  // namespace mn::data
