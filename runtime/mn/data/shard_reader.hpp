/// Reads shards by pread, without libhdf5 and its lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/shard_format.hpp>

namespace mn::data {

/// What reading has cost so far; shared by the readers of a dataset.
struct IoCounters {
  std::atomic<std::int64_t> opens = 0;
  std::atomic<std::int64_t> bytes = 0;
};

/// An open shard whose header has been compared with the table's entry.
struct OpenShard {
  File file;
  ShardHeader header;
};

/// One open and one pread of 4 KiB. Throws DataError that names the shard if it is missing, truncated, changed since
/// the manifest was written, or damaged.
[[nodiscard]] OpenShard open_shard(const ShardTable& table, std::size_t shard);
/// The same for a shard file by itself.
[[nodiscard]] OpenShard open_shard(const std::filesystem::path& path);

/// A shard file as a table's entry. Throws as open_shard() does.
[[nodiscard]] ShardInfo describe_shard(const std::filesystem::path& path);

/// A shard with its labels, offsets and checksums in memory. Thread-safe.
class ShardReader {
 public:
  using Block = ByteBuffer;

  ShardReader(OpenShard shard, std::shared_ptr<IoCounters> counters);

  [[nodiscard]] const ShardHeader& header() const noexcept { return header_; }
  [[nodiscard]] std::string path() const { return file_.path().string(); }
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(header_.num_samples); }
  [[nodiscard]] std::int32_t label(std::int64_t sample) const { return labels_[sample]; }

  /// Bytes of a sample.
  [[nodiscard]] std::int64_t length(std::int64_t sample) const {
    return static_cast<std::int64_t>(begin_of(sample + 1) - begin_of(sample));
  }

  /// Samples under one checksum: samples [block_samples() · b, …) are block b, the last one may be shorter. 1 for
  /// encoded samples.
  [[nodiscard]] std::int64_t block_samples() const noexcept { return header_.block_samples; }
  [[nodiscard]] std::int64_t num_blocks() const noexcept { return static_cast<std::int64_t>(header_.num_checksums()); }
  [[nodiscard]] std::int64_t block_bytes(std::int64_t block) const;

  /// Blocks [first, first + count) by one read, unchecked, into `out`, which has their length.
  void read_blocks(std::int64_t first, std::int64_t count, std::span<std::byte> out) const;
  /// Whether these are the block's bytes, by its checksum.
  [[nodiscard]] bool is_good(std::int64_t block, std::span<const std::byte> bytes) const;
  /// One block; null if it is damaged.
  [[nodiscard]] std::shared_ptr<const Block> load_block(std::int64_t block) const;
  /// Memory of labels, offsets and checksums.
  [[nodiscard]] std::int64_t index_bytes() const noexcept;

  /// Sections that only tools look at: checked against their checksum and returned.
  [[nodiscard]] std::vector<std::byte> read_section(Section section) const;
  /// Where sample i came from; empty for fixed samples.
  [[nodiscard]] std::vector<std::string> read_keys() const;

  /// "FILE: sample N is damaged …", what to say when a read returned false.
  [[nodiscard]] std::string damage(std::int64_t sample) const;

 private:
  template <class T>
  [[nodiscard]] std::vector<T> read_array(Section section) const;
  /// Where a sample begins within the section of samples.
  [[nodiscard]] std::uint64_t begin_of(std::int64_t sample) const {
    return offsets_.empty() ? static_cast<std::uint64_t>(sample * sample_bytes_) : offsets_[sample];
  }
  void read_bytes(std::uint64_t offset, std::span<std::byte> out) const;

  File file_;
  ShardHeader header_;
  std::int64_t sample_bytes_;  // of a fixed sample
  std::shared_ptr<IoCounters> counters_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint32_t> crcs_;
};

}  // namespace mn::data
