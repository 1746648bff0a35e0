/// Reads samples of an indexed HDF5 file by pread, without libhdf5 and its lock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <mn/core/file.hpp>
#include <mn/data/hdf5_table.hpp>
#include <mn/data/shard_reader.hpp>

namespace mn::data {

/// An open file of a table. Thread-safe.
class Hdf5Reader {
 public:
  /// Throws DataError if the file is not there, or was changed since it was indexed. `table` must outlive it.
  Hdf5Reader(const Hdf5Table& table, std::size_t file, std::shared_ptr<IoCounters> counters);

  /// Whether the samples of a field lie one after another, each as it is but for its byte order: read_samples() has
  /// them. load_block() has those of all fields.
  [[nodiscard]] bool is_contiguous(std::size_t field) const { return array(field).chunk.empty(); }
  [[nodiscard]] std::int64_t block_samples(std::size_t field) const {
    return array(field).block_samples(table_->spec()[field]);
  }
  /// Samples in a block: the last one may have fewer.
  [[nodiscard]] std::int64_t samples_in(std::size_t field, std::int64_t block) const;

  /// Samples [first, first + count) of a contiguous field by one read.
  void read_samples(std::size_t field, std::int64_t first, std::int64_t count, std::span<std::byte> out) const;
  /// The values of the samples of a block, in C order and the machine's byte order. Throws DataError that names file,
  /// field and samples if they are damaged.
  [[nodiscard]] std::shared_ptr<const ByteBuffer> load_block(std::size_t field, std::int64_t block) const;

 private:
  [[nodiscard]] const Hdf5Array& array(std::size_t field) const { return facts_->arrays[field]; }
  [[nodiscard]] ByteBuffer load_chunk(std::size_t field, std::size_t number) const;
  void read_bytes(std::uint64_t address, std::span<std::byte> out) const;

  const Hdf5Table* table_;
  const Hdf5File* facts_;
  File file_;
  std::shared_ptr<IoCounters> counters_;
};

}  // namespace mn::data
