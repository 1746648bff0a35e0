/// A file of a dataset, as reading sees it: a shard, or an HDF5 file as it is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <mn/core/error.hpp>
#include <mn/data/raw_samples.hpp>

namespace mn::data {

/// What reading has cost so far; shared by the files of a dataset.
struct IoCounters {
  std::atomic<std::int64_t> opens = 0;
  std::atomic<std::int64_t> bytes = 0;
};

/// Samples of some fields. Those of a field are in memory, or lie in blocks, which are read and checked as a whole.
/// Thread-safe.
class StoredFile {
 public:
  virtual ~StoredFile() = default;
  StoredFile(const StoredFile&) = delete;
  StoredFile& operator=(const StoredFile&) = delete;

  /// Number of samples.
  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;
  /// Bytes of a field of a sample.
  [[nodiscard]] virtual std::int64_t length(std::size_t field, std::int64_t sample) const = 0;
  /// Whether the field is in memory: copy_small() has its samples. All others are in blocks.
  [[nodiscard]] virtual bool is_small(std::size_t field) const noexcept = 0;
  /// Writes length(field, sample) bytes.
  virtual void copy_small(std::size_t field, std::int64_t sample, std::byte* out) const = 0;
  /// Memory that the open file takes.
  [[nodiscard]] virtual std::int64_t index_bytes() const noexcept = 0;

  /// The block that a sample is in.
  [[nodiscard]] virtual std::int64_t block_of(std::size_t field, std::int64_t sample) const = 0;
  [[nodiscard]] virtual std::int64_t samples_in(std::size_t field, std::int64_t block) const = 0;
  [[nodiscard]] virtual std::int64_t block_bytes(std::size_t field, std::int64_t block) const = 0;
  /// Where a sample begins within its block.
  [[nodiscard]] virtual std::int64_t offset_in_block(std::size_t field, std::int64_t sample) const = 0;
  /// Whether one read takes several blocks that follow one another.
  [[nodiscard]] virtual bool has_runs(std::size_t field) const noexcept = 0;

  /// Blocks [first, first + count), one unless has_runs(), into `out`, which has their length. Their checksums are not
  /// compared yet; what can't be decoded is a DataError that says so.
  virtual void read_blocks(std::size_t field, std::int64_t first, std::int64_t count,
                           std::span<std::byte> out) const = 0;
  /// Whether these are the block's bytes, by its checksum; true where it has none.
  [[nodiscard]] virtual bool is_good(std::size_t field, std::int64_t block, std::span<const std::byte> bytes) const = 0;
  /// What to say when a block is not good: it names file, samples and remedy.
  [[nodiscard]] virtual std::string damage(std::size_t field, std::int64_t block) const = 0;
  /// " from NAME", the image or member that a sample was made of, for messages; empty where the file does not say, or
  /// can't be read.
  [[nodiscard]] virtual std::string source_text(std::int64_t /*sample*/) const { return {}; }
  /// Has the system read blocks [first, first + count) soon, as far as they exist; returns at once.
  virtual void will_read(std::size_t field, std::int64_t first, std::int64_t count) const noexcept = 0;

  /// One block. Throws DataError if it is damaged.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> load_block(std::size_t field, std::int64_t block) const {
    auto bytes = std::make_shared<ByteBuffer>(block_bytes(field, block));
    read_blocks(field, block, 1, *bytes);
    if (!is_good(field, block, *bytes)) throw DataError(damage(field, block));
    return bytes;
  }

 protected:
  StoredFile() = default;
};

}  // namespace mn::data
