/// Converters: other formats → a folder of shards with a manifest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
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

/// Writes a dataset of fixed samples as shards, in order, and then its manifest. `attributes` go into every shard.
/// Throws UsageError if options.out holds a dataset already, or another process is writing there.
ShardTable write_fixed_dataset(const Dataset& dataset, const ConvertOptions& options,
                               std::map<std::string, std::string> attributes);

/// A pair of IDX files, raw or gzip.
ShardTable convert_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                       const ConvertOptions& options);

/// One of the datasets that are made together.
struct FixedSplit {
  std::string name;
  std::shared_ptr<const Dataset> dataset;
  std::map<std::string, std::string> attributes;
};
/// write_fixed_dataset() for each split, into options.out/NAME; begins when all these folders are found free.
std::vector<ShardTable> write_splits(const std::vector<FixedSplit>& splits, const ConvertOptions& options);

/// MNIST's four files in `folder`, train-images-idx3-ubyte[.gz], …, → options.out/train and options.out/val (t10k-…).
/// Throws DataError that names what is missing.
std::vector<ShardTable> convert_idx_folder(const std::filesystem::path& folder, const ConvertOptions& options);

/// CIFAR-10 or CIFAR-100, binary version, in `folder` → options.out/train and options.out/val; samples {3, 32, 32}.
std::vector<ShardTable> convert_cifar(const std::filesystem::path& folder, const ConvertOptions& options);

}  // namespace mn::data
