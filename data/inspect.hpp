/// Looking at shards: describe, verify, extract.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
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

/// Throws UsageError unless a dataset of `samples` samples has sample `index`.
void check_sample_number(std::int64_t index, std::int64_t samples);
/// The position of a field named by an option. Throws UsageError that begins with the option if there is no such field.
[[nodiscard]] std::size_t field_position(const SampleSpec& spec, const std::string& name, const std::string& option);
/// Writes a sample's bytes to the file `out`, or to standard output if `out` is empty.
void write_sample(std::span<const std::byte> sample, const std::string& out);

/// The bytes of a field of a sample as stored; of a sample and a label also the latter, and where an image came from.
struct ExtractedSample {
  std::vector<std::byte> bytes;
  std::int64_t label = -1;
  std::string key;
};
/// Throws UsageError if there is no such sample, DataError if it is damaged.
[[nodiscard]] ExtractedSample extract_sample(const ShardTable& table, std::int64_t index, std::size_t field = 0);

}  // namespace mn::data
