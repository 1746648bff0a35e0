#include <cstring>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/table_columns.hpp>

namespace mn::data {
namespace {

constexpr std::int64_t kMaxSamples = std::int64_t{1} << 40;

}  // namespace

Columns columns_of(const std::vector<ShardInfo>& shards) {
  Columns columns;
  for (const ShardInfo& shard : shards) {
    columns.files.push_back(shard.file);
    columns.num_samples.push_back(shard.num_samples);
    columns.bytes.push_back(shard.bytes);
    for (const std::byte b : shard.uuid) columns.uuids.push_back(std::to_integer<std::uint8_t>(b));
    columns.header_crcs.push_back(shard.header_crc);
  }
  return columns;
}

std::vector<ShardInfo> shards_of(const Columns& columns) {
  const std::size_t n = columns.files.size();
  if (columns.num_samples.size() != n || columns.bytes.size() != n || columns.uuids.size() != n * sizeof(Uuid) ||
      columns.header_crcs.size() != n) {
    throw DataError("the columns of a shard table differ in length");
  }
  std::vector<ShardInfo> shards(n);
  for (std::size_t i = 0; i < n; ++i) {
    shards[i].file = columns.files[i];
    shards[i].num_samples = columns.num_samples[i];
    shards[i].bytes = columns.bytes[i];
    std::memcpy(shards[i].uuid.data(), &columns.uuids[i * sizeof(Uuid)], sizeof(Uuid));
    shards[i].header_crc = static_cast<std::uint32_t>(columns.header_crcs[i]);
    if (shards[i].num_samples < 0 || shards[i].num_samples > kMaxSamples || shards[i].bytes < 0) {
      throw DataError("a shard table has impossible numbers");
    }
    if (shards[i].file.find('/') != std::string::npos) throw DataError("a shard table names a file outside its folder");
  }
  return shards;
}

Described described(const nlohmann::json& document, std::int64_t blocks) {
  Described result;
  result.spec = sample_spec_from_json(document, kTableName);
  if (const std::string problem = storage_problem(result.spec); !problem.empty()) {
    throw DataError(std::string(kTableName) + " has samples that no shard can hold: " + problem);
  }
  result.form.schema = document.contains("fields") ? ShardSchema::kFields : ShardSchema::kTwoFields;
  const bool two = result.form.schema == ShardSchema::kTwoFields;
  if (two && blocks == kUntold) blocks = version1_block_samples(result.spec);
  const bool good = two && !result.spec.is_fixed() ? blocks == 1 : blocks >= 1 && blocks <= kMaxSamples;
  if (!good) throw DataError(std::string(kTableName) + " has blocks of " + std::to_string(blocks) + " samples");
  result.form.block_samples = blocks;
  return result;
}

}  // namespace mn::data
