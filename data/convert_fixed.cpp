#include <algorithm>
#include <list>
#include <numeric>

#include <mn/core/error.hpp>
#include <mn/data/shard_writer.hpp>

#include "data/convert.hpp"
#include "data/output_folder.hpp"

namespace mn::data {
namespace {

/// Samples in one shard: whole blocks, if it holds several.
std::int64_t samples_per_shard(const SampleSpec& spec, std::int64_t shard_bytes) {
  const std::int64_t wanted = shard_bytes / std::max<std::int64_t>(spec.sample_bytes(), 1);
  const std::int64_t block = new_block_samples(spec);
  return wanted > block ? wanted / block * block : std::max(wanted, std::int64_t{1});
}

ShardContent content_of(const Dataset& dataset, std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> indices(last - first);
  std::iota(indices.begin(), indices.end(), first);
  RawSamples samples;
  dataset.read(indices, samples);
  ShardContent content;
  content.dtype = dataset.spec().dtype;
  content.shape = dataset.spec().shape;
  content.bytes = std::move(samples.bytes);
  content.labels.assign(samples.labels.begin(), samples.labels.end());
  return content;
}

std::filesystem::path existing(const std::filesystem::path& folder, const std::string& name) {
  for (const char* suffix : {".gz", ""}) {
    std::filesystem::path path = folder / (name + suffix);
    if (std::filesystem::exists(path)) return path;
  }
  throw DataError("there is no " + name + " or " + name + ".gz in " + folder.string() +
                  ": MNIST's four files are expected there; for others, name a file of images and one of labels");
}

std::map<std::string, std::string> idx_attributes(const std::filesystem::path& images,
                                                  const std::filesystem::path& labels) {
  return {{"converter", "mnshard idx"}, {"source", images.filename().string() + ", " + labels.filename().string()}};
}

void check_not_empty(const Dataset& dataset, const ConvertOptions& options) {
  if (dataset.size() == 0) throw DataError("there are no samples to convert into " + options.out.string());
}

ShardTable write_shards(const Dataset& dataset, const ConvertOptions& options,
                        std::map<std::string, std::string> attributes) {
  attributes["split"] = options.split;
  const std::int64_t step = samples_per_shard(dataset.spec(), options.shard_bytes);
  const std::int64_t count = (dataset.size() + step - 1) / step;
  std::vector<ShardInfo> shards;
  for (std::int64_t i = 0; i < count; ++i) {
    ShardContent content = content_of(dataset, i * step, std::min((i + 1) * step, dataset.size()));
    content.attributes = attributes;
    shards.push_back(write_shard(options.out / shard_name(options.split, i, count), content));
  }
  ShardTable table(std::filesystem::absolute(options.out).string(), options.split, dataset.spec(), std::move(shards));
  write_manifest(table);
  return table;
}

}  // namespace

ShardTable write_fixed_dataset(const Dataset& dataset, const ConvertOptions& options,
                               std::map<std::string, std::string> attributes) {
  check_not_empty(dataset, options);
  const OutputFolder out(options);
  return write_shards(dataset, options, std::move(attributes));
}

std::vector<ShardTable> write_splits(const std::vector<FixedSplit>& splits, const ConvertOptions& options) {
  std::vector<ConvertOptions> outputs;
  for (const FixedSplit& split : splits) {
    outputs.push_back({.out = options.out / split.name, .split = split.name, .shard_bytes = options.shard_bytes});
    check_not_empty(*split.dataset, outputs.back());
  }
  const std::list<OutputFolder> folders(outputs.begin(), outputs.end());
  std::vector<ShardTable> tables;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    tables.push_back(write_shards(*splits[i].dataset, outputs[i], splits[i].attributes));
  }
  return tables;
}

ShardTable convert_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                       const ConvertOptions& options) {
  return write_fixed_dataset(*read_idx_dataset(images, labels), options, idx_attributes(images, labels));
}

std::vector<ShardTable> convert_idx_folder(const std::filesystem::path& folder, const ConvertOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) throw DataError("there is no folder " + folder.string());
  std::vector<FixedSplit> splits;
  for (const auto& [split, prefix] : {std::pair("train", "train"), std::pair("val", "t10k")}) {
    const auto images = existing(folder, std::string(prefix) + "-images-idx3-ubyte");
    const auto labels = existing(folder, std::string(prefix) + "-labels-idx1-ubyte");
    splits.push_back({split, read_idx_dataset(images, labels), idx_attributes(images, labels)});
  }
  return write_splits(splits, options);
}

}  // namespace mn::data
