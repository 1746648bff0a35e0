/// The shard table as its file and the wire have it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/shard_info.hpp>

namespace mn::data {

inline constexpr const char* kTableName = "a shard table";     // in messages
inline constexpr const char* kBlockSamples = "block_samples";  // the attribute; absent in tables of version 1 shards
inline constexpr std::int64_t kUntold = -1;

/// The shards by columns, as both the file and the wire keep them.
struct Columns {
  std::vector<std::string> files;
  std::vector<std::int64_t> num_samples;
  std::vector<std::int64_t> bytes;
  std::vector<std::uint8_t> uuids;  // 16 a shard
  std::vector<std::int64_t> header_crcs;
};

[[nodiscard]] Columns columns_of(const std::vector<ShardInfo>& shards);
/// Throws DataError unless they are of one length, with counts and names that can be.
[[nodiscard]] std::vector<ShardInfo> shards_of(const Columns& columns);

struct Described {
  SampleSpec spec;
  ShardForm form;
};

/// What the samples are, from the keys of either schema; `blocks`: samples in a block, kUntold where the table does not
/// say. Throws DataError if no shard can hold them.
[[nodiscard]] Described described(const nlohmann::json& document, std::int64_t blocks);

/// The value in tables that do not have the column.
[[nodiscard]] inline std::int64_t version1_block_samples(const SampleSpec& spec) {
  return spec.is_fixed() ? kVersion1BlockSamples : 1;
}
[[nodiscard]] inline bool has_two_fields(const ShardForm& form) { return form.schema == ShardSchema::kTwoFields; }
/// Whether a table of such shards says how long their blocks are.
[[nodiscard]] inline bool tells_blocks(const SampleSpec& spec, const ShardForm& form) {
  return !has_two_fields(form) || form.block_samples != version1_block_samples(spec);
}

}  // namespace mn::data
