/// Looking at shards: describe, verify, extract.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <mn/data/manifest.hpp>

namespace mn::data {

struct Damage {
  std::string file;
  std::int64_t sample = -1;  ///< −1: the shard as a whole
  std::string what;
};

struct VerifyReport {
  std::int64_t shards = 0;
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  std::vector<Damage> damage;  ///< by shard, then sample
};

/// Reads all of every shard on `threads` threads and compares all checksums, classes with their number, and the shards
/// with the manifest. `progress(done, total)` is called after each shard, from one thread at a time.
[[nodiscard]] VerifyReport verify_dataset(const ShardTable& table, int threads,
                                          const std::function<void(std::int64_t, std::int64_t)>& progress = {});

/// The bytes of a field of a sample as stored; of a sample and a label also the latter, and where an image came from.
struct ExtractedSample {
  std::vector<std::byte> bytes;
  std::int64_t label = -1;
  std::string key;
};
/// Throws UsageError if there is no such sample, DataError if it is damaged.
[[nodiscard]] ExtractedSample extract_sample(const ShardTable& table, std::int64_t index, std::size_t field = 0);

}  // namespace mn::data
