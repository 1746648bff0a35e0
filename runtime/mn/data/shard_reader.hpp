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
  ShardReader(OpenShard shard, std::shared_ptr<IoCounters> counters);

  [[nodiscard]] const ShardHeader& header() const noexcept { return header_; }
  [[nodiscard]] std::string path() const { return file_.path().string(); }
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(header_.num_samples); }
  [[nodiscard]] std::int32_t label(std::int64_t sample) const { return labels_[sample]; }

  /// Encoded samples: length, and the bytes into `out` of that length. False if the checksum differs.
  [[nodiscard]] std::int64_t length(std::int64_t sample) const;
  [[nodiscard]] bool read_sample(std::int64_t sample, std::span<std::byte> out) const;

  /// Fixed samples: samples [64·block, …) up to the end of the block. False if the checksum differs.
  [[nodiscard]] std::int64_t block_bytes(std::int64_t block) const;
  [[nodiscard]] bool read_block(std::int64_t block, std::span<std::byte> out) const;

  /// Sections that only tools look at: checked against their checksum and returned.
  [[nodiscard]] std::vector<std::byte> read_section(Section section) const;
  /// Where sample i came from; empty for fixed samples.
  [[nodiscard]] std::vector<std::string> read_keys() const;

  /// "FILE: sample N is damaged …", what to say when a read returned false.
  [[nodiscard]] std::string damage(std::int64_t sample) const;

 private:
  template <class T>
  [[nodiscard]] std::vector<T> read_array(Section section) const;
  void read_bytes(std::uint64_t offset, std::span<std::byte> out) const;

  File file_;
  ShardHeader header_;
  std::shared_ptr<IoCounters> counters_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint32_t> crcs_;
};

}  // namespace mn::data
