/// The shard table: which shards make a dataset. In a file it is manifest.h5 (HDF5 behind a user block of 512 bytes
/// with magic, version, CRC32C and length of the file), on the wire a CBOR document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <mn/data/dataset.hpp>
#include <mn/data/shard_format.hpp>
#include <mn/data/shard_info.hpp>

namespace mn::data {

inline constexpr const char* kManifestName = "manifest.h5";

/// The shards of a dataset, in order: samples are numbered through them.
class ShardTable {
 public:
  ShardTable() = default;
  /// Shards in the form that new_form() gives for the spec alone.
  ShardTable(std::string folder, std::string split, SampleSpec spec, std::vector<ShardInfo> shards);
  ShardTable(std::string folder, std::string split, SampleSpec spec, std::vector<ShardInfo> shards,
             const ShardForm& form);

  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  [[nodiscard]] const std::string& split() const noexcept { return split_; }
  [[nodiscard]] const SampleSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] const std::vector<ShardInfo>& shards() const noexcept { return shards_; }
  [[nodiscard]] std::int64_t num_samples() const noexcept { return firsts_.back(); }
  /// Bytes of all shards.
  [[nodiscard]] std::int64_t total_bytes() const noexcept;
  /// The form of all shards.
  [[nodiscard]] const ShardForm& form() const noexcept { return form_; }
  [[nodiscard]] StorageLayout layout() const noexcept;
  [[nodiscard]] std::filesystem::path path(std::size_t shard) const;
  /// Number of the first sample of a shard.
  [[nodiscard]] std::int64_t first(std::size_t shard) const { return firsts_[shard]; }
  /// Shard and sample within it.
  [[nodiscard]] std::pair<std::size_t, std::int64_t> locate(std::int64_t sample) const;

  /// A hash of everything but the folder: equal for equal data wherever it lies.
  [[nodiscard]] std::uint64_t hash() const;
  [[nodiscard]] std::string serialize() const;
  /// Throws DataError if `bytes` is not a table.
  [[nodiscard]] static ShardTable parse(const std::string& bytes);

 private:
  std::string folder_;
  std::string split_;
  SampleSpec spec_;
  std::vector<ShardInfo> shards_;
  std::vector<std::int64_t> firsts_ = {0};  // [shards + 1]
  ShardForm form_;
};

/// Publishes FOLDER/manifest.h5 at once; the dataset is complete from then on.
void write_manifest(const ShardTable& table);
/// Throws DataError that names the folder and mnshard if there is none, or if it is damaged.
[[nodiscard]] ShardTable read_manifest(const std::filesystem::path& folder);

}  // namespace mn::data
