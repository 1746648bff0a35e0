/// Shards of samples by rule, fixed and encoded.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/data/shard_content.hpp>

#include "tests/data/write_fixed_dataset.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {

/// Opens as many files as the process may have, `limit` in all, until the result is destroyed. For a process that ends.
inline std::vector<File> take_all_files(rlim_t limit) {
  const rlimit limits = {limit, limit};
  if (setrlimit(RLIMIT_NOFILE, &limits) != 0) std::exit(2);
  std::vector<File> taken;
  try {
    while (true) taken.emplace_back("/proc/self/exe", File::Mode::kRead);
  } catch (const FileError&) {
  }
  return taken;
}

inline std::byte value_of(std::int64_t sample, std::int64_t i) { return static_cast<std::byte>(sample * 31 + i * 7); }

/// n samples of `bytes` bytes with the sample's number; labels 0 … 4.
inline std::shared_ptr<MemoryDataset> make_fixed(std::int64_t n, std::int64_t bytes = 15) {
  ByteBuffer data;
  std::vector<std::int64_t> labels;
  for (std::int64_t s = 0; s < n; ++s) {
    for (std::int64_t i = 0; i < bytes; ++i) data.push_back(value_of(s, i));
    labels.push_back(s % 5);
  }
  return std::make_shared<MemoryDataset>(labeled({.shape = {bytes / 5, 5}}, 5, {"a", "b", "ç", "d", "e"}),
                                         labeled_samples(std::move(data), labels));
}

/// The labels of a read of two fields.
inline std::vector<std::int64_t> labels_of(const RawSamples& samples) {
  const auto labels = samples.columns[1].values<std::int64_t>();
  return {labels.begin(), labels.end()};
}

inline std::vector<std::byte> encoded_sample(std::int64_t sample) {
  std::vector<std::byte> bytes(10 + sample % 97 * 13);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = value_of(sample, static_cast<std::int64_t>(i));
  return bytes;
}

/// Three shards of 20, 1 and 30 encoded samples.
inline ShardTable make_encoded(const std::filesystem::path& folder) {
  const SampleSpec spec = labeled({.kind = FieldKind::kEncoded}, 51);
  std::vector<ShardInfo> shards;
  std::int64_t sample = 0;
  for (const std::int64_t count : {20, 1, 30}) {
    ShardContent content(spec);
    for (std::int64_t i = 0; i < count; ++i, ++sample) {
      content.add_encoded(encoded_sample(sample), sample, {10, 20, 3}, "key-" + std::to_string(sample));
    }
    shards.push_back(write_shard(folder / shard_file_name("train", shards.size(), 3), content));
  }
  ShardTable table(folder.string(), "train", spec, shards);
  write_manifest(table);
  return table;
}

/// Shards of 128 samples of 15 bytes, or of 16 of another length.
inline ShardTable make_fixed_shards(const std::filesystem::path& folder, std::int64_t n, std::int64_t bytes = 15) {
  const std::int64_t shard_bytes = (bytes == 15 ? 128 : 16) * (bytes + 8);  // with the label
  return write_fixed_dataset(*make_fixed(n, bytes), {.out = folder, .split = "train", .shard_bytes = shard_bytes}, {});
}

class Shards : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "shards";
  RawSamples out_;
};

}  // namespace mn::data
