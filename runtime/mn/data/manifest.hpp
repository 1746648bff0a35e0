/// The shard table: which shards make a dataset. In a file it is manifest.h5 (HDF5 behind a user block of 512 bytes
/// with magic, version, CRC32C and length of the file), on the wire a CBOR document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/dataset.hpp>
#include <mn/data/shard_format.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

inline constexpr const char* kDatasetManifest = "manifest.h5";

/// The shards of a dataset, in order; samples are numbered through all shards.
class ShardTable : public StoredTable {
 public:
  ShardTable() = default;
  /// Shards in blocks of default_block_samples() of the spec alone.
  ShardTable(std::string folder, std::string split, SampleSpec spec, std::vector<ShardInfo> shards);
  ShardTable(std::string folder, std::string split, SampleSpec spec, std::vector<ShardInfo> shards,
             std::int64_t block_samples);

  [[nodiscard]] const std::vector<ShardInfo>& shards() const noexcept { return shards_; }
  /// Samples in a block of every shard; an average if blocks are cut by bytes.
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
  /// Opens all shards, many at a time, and compares their headers and lengths with the table. Reads no sample.
  void check_all() const override;
  /// Throws DataError if `bytes` is not a table.
  [[nodiscard]] static ShardTable parse(const std::string& bytes);

 private:
  std::vector<ShardInfo> shards_;
  std::int64_t block_samples_ = 1;
};

struct OpenShard;
/// Opens a shard of the table. Throws DataError that names a shard that is missing, truncated, changed or damaged.
[[nodiscard]] OpenShard open_shard(const ShardTable& table, std::size_t shard);

/// Publishes FOLDER/manifest.h5 at once; the dataset is complete from then on.
void write_manifest(const ShardTable& table);
/// Throws DataError that names the folder and mnshard if the manifest is missing or damaged.
[[nodiscard]] ShardTable read_manifest(const std::filesystem::path& folder);

inline constexpr const char* kTableName = "a shard table";     // in messages
inline constexpr const char* kBlockSamples = "block_samples";  // the attribute

/// The shards by columns, as in the file and on the wire.
struct Columns {
  std::vector<std::string> files;
  std::vector<std::int64_t> num_samples;
  std::vector<std::int64_t> bytes;
  std::vector<std::uint8_t> uuids;  // 16 a shard
  std::vector<std::int64_t> header_crcs;
};

[[nodiscard]] Columns columns_of(const std::vector<ShardInfo>& shards);
/// Throws DataError unless all columns have one length, and counts and names are possible.
[[nodiscard]] std::vector<ShardInfo> shards_of(const Columns& columns);

/// The spec in a table's JSON. Throws DataError if shards can't hold the samples.
[[nodiscard]] SampleSpec spec_of_table(const nlohmann::json& document);
/// Returns `block_samples`. Throws DataError if no block can have this number of samples.
[[nodiscard]] std::int64_t checked_block_samples(std::int64_t block_samples);

}  // namespace mn::data
