/// Reads shards by pread, without libhdf5 and its lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mn/core/checksum.hpp>
#include <mn/core/file.hpp>
#include <mn/data/shard_format.hpp>
#include <mn/data/stored_file.hpp>

namespace mn::data {

struct OpenShard {
  File file;
  ShardHeader header;
  std::uint32_t header_crc;  ///< checksum in the user block
};

/// If the shard is truncated or damaged, throws a DataError that names it.
[[nodiscard]] OpenShard open_shard(const std::filesystem::path& path);
/// Opens the shard, or a copy of it, that has the entry `expected` in a ShardTable. Throws as open_shard(path) does,
/// and DataError if the shard was changed after the manifest was written.
[[nodiscard]] OpenShard open_shard(File bytes, const ShardInfo& expected);

/// Returns a shard's entry for a ShardTable. Throws as open_shard() does.
[[nodiscard]] ShardInfo describe_shard(const std::filesystem::path& path);

/// An open shard; its small fields, offsets and checksums are in memory. Thread-safe.
class ShardReader final : public StoredFile {
 public:
  ShardReader(OpenShard shard, std::shared_ptr<IoCounters> counters);

  [[nodiscard]] const ShardHeader& header() const noexcept { return header_; }
  [[nodiscard]] std::string path() const { return file_.path().string(); }
  [[nodiscard]] std::int64_t size() const noexcept override { return static_cast<std::int64_t>(header_.num_samples); }

  [[nodiscard]] std::int64_t begin_of(std::size_t field, std::int64_t sample) const override {
    const Field& f = fields_[field];
    return f.begins.empty() ? sample * f.sample_bytes : static_cast<std::int64_t>(f.begins[sample]);
  }
  [[nodiscard]] bool is_small(std::size_t field) const noexcept override { return fields_[field].is_small; }
  void copy_small(std::size_t field, std::int64_t sample, std::byte* out) const override;

  /// A block has one checksum for each field that is not small; all fields are cut into blocks at the same samples.
  /// Blocks are cut by bytes, or all but the last have an equal number of samples.
  [[nodiscard]] std::int64_t block_of(std::size_t field, std::int64_t sample) const override;
  [[nodiscard]] std::int64_t first_sample(std::size_t, std::int64_t block) const override {
    return block_begins_.empty() ? std::min(block * header_.block_samples, size())
                                 : static_cast<std::int64_t>(block_begins_[block]);
  }
  [[nodiscard]] bool has_runs(std::size_t) const noexcept override { return true; }

  void read_blocks(std::size_t field, std::int64_t first, std::int64_t count, std::span<std::byte> out) const override;
  void will_read(std::size_t field, std::int64_t first, std::int64_t count) const noexcept override;
  [[nodiscard]] bool is_good(std::size_t field, std::int64_t block, std::span<const std::byte> bytes) const override {
    return is_small(field) || crc32c(bytes) == fields_[field].crcs[block];
  }
  [[nodiscard]] std::string damage(std::size_t field, std::int64_t block) const override;
  [[nodiscard]] std::string source_of(std::int64_t sample) const override;
  void check_rest() const override;
  [[nodiscard]] std::int64_t index_bytes() const noexcept override;

  /// The names of the sources of all samples; empty unless the samples are images with a class.
  [[nodiscard]] std::vector<std::string> read_keys() const;

 private:
  /// The part of a field that is in memory.
  struct Field {
    bool is_small = false;
    std::int64_t sample_bytes = 0;      // size of a sample of a fixed field
    std::vector<std::byte> values;      // values of a small field
    std::vector<std::uint64_t> begins;  // [N + 1] first byte of each sample, and the end; empty if the field is fixed
    std::vector<std::uint32_t> crcs;    // [blocks] checksums; empty if the field is small
  };

  template <class T>
  [[nodiscard]] std::vector<T> read_array(const Extent& extent, const std::string& name) const;
  [[nodiscard]] std::vector<std::uint64_t> read_block_begins() const;
  [[nodiscard]] Field read_field(std::size_t field) const;
  void read_bytes(std::uint64_t offset, std::span<std::byte> out) const;

  File file_;
  ShardHeader header_;
  std::shared_ptr<IoCounters> counters_;
  std::vector<std::uint64_t> block_begins_;  // [blocks + 1]; empty if blocks have equal numbers of samples
  std::vector<Field> fields_;
};

}  // namespace mn::data
