/// The shard table: which shards make a dataset. In a file it is manifest.h5 (HDF5 behind a user block of 512 bytes
/// with magic, version, CRC32C and length of the file), on the wire a CBOR document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/dataset.hpp>
#include <mn/data/shard_format.hpp>
#include <mn/data/shard_info.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

inline constexpr const char* kManifestName = "manifest.h5";

/// The shards of a dataset, in order: samples are numbered through them.
class ShardTable final : public StoredTable {
 public:
  ShardTable() = default;
  /// Shards in the form that new_form() gives for the spec alone.
  ShardTable(std::string folder, std::string split, SampleSpec spec, std::vector<ShardInfo> shards);
  ShardTable(std::string folder, std::string split, SampleSpec spec, std::vector<ShardInfo> shards,
             const ShardForm& form);

  [[nodiscard]] const std::vector<ShardInfo>& shards() const noexcept { return shards_; }
  /// The form of all shards.
  [[nodiscard]] const ShardForm& form() const noexcept { return form_; }
  [[nodiscard]] std::filesystem::path path(std::size_t shard) const override;
  [[nodiscard]] std::int64_t file_bytes(std::size_t shard) const override { return shards_[shard].bytes; }
  [[nodiscard]] bool is_small(std::size_t field) const override { return data::is_small(spec(), field, form_); }
  [[nodiscard]] StorageLayout layout() const override;

  /// A hash of everything but the folder: equal for equal data wherever it lies.
  [[nodiscard]] std::uint64_t hash() const override;
  [[nodiscard]] std::string serialize() const override;
  /// Throws DataError if `bytes` is not a table.
  [[nodiscard]] static ShardTable parse(const std::string& bytes);

 private:
  std::vector<ShardInfo> shards_;
  ShardForm form_;
};

/// Publishes FOLDER/manifest.h5 at once; the dataset is complete from then on.
void write_manifest(const ShardTable& table);
/// Throws DataError that names the folder and mnshard if there is none, or if it is damaged.
[[nodiscard]] ShardTable read_manifest(const std::filesystem::path& folder);

// The shard table as its file and the wire have it.

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
