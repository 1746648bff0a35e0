/// The shard table lists the shards of a dataset. On disk the table is manifest.h5 (manifest_file.cpp); between ranks
/// the table is a CBOR document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/dataset.hpp>
#include <mn/data/shard_format.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

inline constexpr const char* kDatasetManifest = "manifest.h5";

/// The shards of a dataset, in order. Samples are numbered consecutively through all shards.
class ShardTable : public StoredTable {
 public:
  ShardTable() = default;
  /// Without `block_samples`, a block has default_block_samples(spec) samples.
  ShardTable(std::string folder, std::string split, SampleSpec spec, std::vector<ShardInfo> shards,
             std::optional<std::int64_t> block_samples = {});

  [[nodiscard]] const std::vector<ShardInfo>& shards() const noexcept { return shards_; }
  /// Samples in a block, equal in all shards. An average if blocks are cut by bytes (has_block_table()).
  [[nodiscard]] std::int64_t block_samples() const noexcept { return block_samples_; }
  [[nodiscard]] std::filesystem::path path(std::size_t shard) const override;
  [[nodiscard]] std::int64_t file_bytes(std::size_t shard) const override { return shards_[shard].bytes; }
  [[nodiscard]] bool is_small(std::size_t field) const override {
    return data::is_small(spec(), field, block_samples_);
  }
  [[nodiscard]] StorageLayout layout() const override;

  [[nodiscard]] std::uint64_t hash() const override;
  [[nodiscard]] std::string serialize() const override;
  [[nodiscard]] std::shared_ptr<const StoredFile> open(std::size_t shard, File bytes,
                                                       std::shared_ptr<IoCounters> counters) const override;
  /// Opens all shards, many at a time, and compares headers and lengths with the table. Reads no samples.
  void check_all() const override;
  /// Throws DataError if `bytes` is not a table.
  [[nodiscard]] static ShardTable parse(const std::string& bytes);

 private:
  std::vector<ShardInfo> shards_;
  std::int64_t block_samples_ = 1;
};

struct OpenShard;
/// Opens a shard of the table. Throws a DataError that names the shard if it is missing, truncated, changed or damaged.
[[nodiscard]] OpenShard open_shard(const ShardTable& table, std::size_t shard);

/// Writes manifest.h5 in the table's folder, and publishes it by rename(2). Then the dataset is complete.
void write_manifest(const ShardTable& table);
/// Reads manifest.h5 in the folder. If it is missing or damaged, throws a DataError that names folder and remedy.
[[nodiscard]] ShardTable read_manifest(const std::filesystem::path& folder);

inline constexpr const char* kTableName = "a shard table";     // the table's name in error messages
inline constexpr const char* kBlockSamples = "block_samples";  // name of an attribute in manifest.h5

/// The shards of a table as columns, with one value for each shard, as in manifest.h5 and in messages.
struct Columns {
  std::vector<std::string> files;
  std::vector<std::int64_t> num_samples;
  std::vector<std::int64_t> bytes;
  std::vector<std::uint8_t> uuids;  // 16 bytes for each shard
  std::vector<std::int64_t> header_crcs;
};

[[nodiscard]] Columns columns_of(const std::vector<ShardInfo>& shards);
/// Throws DataError unless all columns have the same length, and all counts and names are valid.
[[nodiscard]] std::vector<ShardInfo> shards_of(const Columns& columns);

/// Reads the spec in a table's JSON. Throws DataError if shards can't hold samples of this spec.
[[nodiscard]] SampleSpec spec_of_table(const nlohmann::json& document);
/// Throws DataError if no block can have this number of samples.
[[nodiscard]] std::int64_t checked_block_samples(std::int64_t block_samples);

}  // namespace mn::data
