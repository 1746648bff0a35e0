/// An open file of a dataset: a shard, or an ordinary HDF5 file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/data/raw_samples.hpp>

namespace mn::data {

struct IoCounters {
  std::atomic<std::int64_t> opens = 0;
  std::atomic<std::int64_t> bytes = 0;
};

/// The samples of one file. Each field lies in blocks. A block has the field's values of some consecutive samples, and
/// is read and checked as a whole. Thread-safe.
class StoredFile {
 public:
  virtual ~StoredFile() = default;
  StoredFile(const StoredFile&) = delete;
  StoredFile& operator=(const StoredFile&) = delete;

  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;
  /// Offset in bytes of a sample among the field's values. If `sample` is size(), the end of the last sample.
  [[nodiscard]] virtual std::int64_t begin_of(std::size_t field, std::int64_t sample) const = 0;
  [[nodiscard]] virtual std::int64_t length(std::size_t field, std::int64_t sample) const {
    return begin_of(field, sample + 1) - begin_of(field, sample);
  }
  /// Whether the field is small: it is in memory, and copy_small() copies it.
  [[nodiscard]] virtual bool is_small(std::size_t /*field*/) const noexcept { return false; }
  /// Writes length(field, sample) bytes.
  virtual void copy_small(std::size_t /*field*/, std::int64_t /*sample*/, std::byte* /*out*/) const {}
  /// Memory that the open file takes.
  [[nodiscard]] virtual std::int64_t index_bytes() const noexcept { return 0; }

  [[nodiscard]] virtual std::int64_t block_of(std::size_t field, std::int64_t sample) const = 0;
  /// The first sample of a block; size() if `block` is num_blocks().
  [[nodiscard]] virtual std::int64_t first_sample(std::size_t field, std::int64_t block) const = 0;
  [[nodiscard]] std::int64_t num_blocks(std::size_t field) const {
    return size() == 0 ? 0 : block_of(field, size() - 1) + 1;
  }
  [[nodiscard]] std::int64_t samples_in(std::size_t field, std::int64_t block) const {
    return first_sample(field, block + 1) - first_sample(field, block);
  }
  [[nodiscard]] std::int64_t block_bytes(std::size_t field, std::int64_t block) const {
    return begin_of(field, first_sample(field, block + 1)) - begin_of(field, first_sample(field, block));
  }
  [[nodiscard]] std::int64_t offset_in_block(std::size_t field, std::int64_t sample) const {
    return begin_of(field, sample) - begin_of(field, first_sample(field, block_of(field, sample)));
  }
  /// Whether one call of read_blocks() can read several consecutive blocks.
  [[nodiscard]] virtual bool has_runs(std::size_t field) const noexcept = 0;

  /// Reads blocks [first, first + count) into `out`, which must have the size of these blocks. `count` must be 1 unless
  /// has_runs(field). Does not compare checksums. Throws DataError if a block can't be read or decoded.
  virtual void read_blocks(std::size_t field, std::int64_t first, std::int64_t count,
                           std::span<std::byte> out) const = 0;
  /// Whether `bytes` has the block's checksum; true if the file has no checksums.
  [[nodiscard]] virtual bool is_good(std::size_t /*field*/, std::int64_t /*block*/, std::span<const std::byte>) const {
    return true;
  }
  /// The error text for a damaged block: file, samples and perhaps a remedy.
  [[nodiscard]] virtual std::string damage(std::size_t field, std::int64_t block) const = 0;
  /// The image file or archive member from which the sample was made. Empty if it is unknown.
  [[nodiscard]] virtual std::string source_of(std::int64_t /*sample*/) const { return {}; }
  /// Checks the parts of the file that are not samples. Throws DataError if one is damaged.
  virtual void check_rest() const {}
  /// Asks the system to read ahead the blocks of [first, first + count) that exist. Does not wait.
  virtual void will_read(std::size_t field, std::int64_t first, std::int64_t count) const noexcept = 0;

  /// Reads and checks one block. Throws DataError if it is damaged.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> load_block(std::size_t field, std::int64_t block) const {
    auto bytes = std::make_shared<ByteBuffer>(block_bytes(field, block));
    read_blocks(field, block, 1, *bytes);
    if (!is_good(field, block, *bytes)) throw DataError(damage(field, block));
    return bytes;
  }
  /// Throws DataError if the bytes are damaged.
  [[nodiscard]] std::vector<std::byte> read_sample(std::size_t field, std::int64_t sample) const {
    const auto block = load_block(field, block_of(field, sample));
    const auto begin = block->begin() + offset_in_block(field, sample);
    return {begin, begin + length(field, sample)};
  }

 protected:
  StoredFile() = default;
};

}  // namespace mn::data
