/// Reads samples of an indexed HDF5 file by pread, without libhdf5 and its lock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <mn/core/file.hpp>
#include <mn/data/hdf5_table.hpp>
#include <mn/data/stored_file.hpp>

namespace mn::data {

/// An open file of a table. A block is a row of the grid of chunks, or about 64 KiB of contiguous samples. Thread-safe.
class Hdf5Reader final : public StoredFile {
 public:
  /// `bytes`: the file that `facts` describes, or a copy. `spec` and `facts` must outlive the reader.
  Hdf5Reader(const SampleSpec& spec, const Hdf5File& facts, File bytes, std::shared_ptr<IoCounters> counters);

  [[nodiscard]] std::int64_t size() const noexcept override { return facts_->num_samples; }
  [[nodiscard]] std::int64_t length(std::size_t field, std::int64_t) const override {
    return (*spec_)[field].sample_bytes();
  }
  [[nodiscard]] bool is_small(std::size_t) const noexcept override { return false; }
  void copy_small(std::size_t, std::int64_t, std::byte*) const override {}
  /// 0: the table holds the positions of the chunks.
  [[nodiscard]] std::int64_t index_bytes() const noexcept override { return 0; }

  [[nodiscard]] std::int64_t block_samples(std::size_t field) const {
    return array(field).block_samples((*spec_)[field]);
  }
  [[nodiscard]] std::int64_t block_of(std::size_t field, std::int64_t sample) const override {
    return sample / block_samples(field);
  }
  [[nodiscard]] std::int64_t samples_in(std::size_t field, std::int64_t block) const override;
  [[nodiscard]] std::int64_t block_bytes(std::size_t field, std::int64_t block) const override {
    return samples_in(field, block) * length(field, 0);
  }
  [[nodiscard]] std::int64_t offset_in_block(std::size_t field, std::int64_t sample) const override {
    return sample % block_samples(field) * length(field, 0);
  }
  [[nodiscard]] bool has_runs(std::size_t field) const noexcept override { return array(field).chunk.empty(); }

  /// The values of the samples, in C order and the machine's byte order.
  void read_blocks(std::size_t field, std::int64_t first, std::int64_t count, std::span<std::byte> out) const override;
  [[nodiscard]] bool is_good(std::size_t, std::int64_t, std::span<const std::byte>) const override { return true; }
  [[nodiscard]] std::string damage(std::size_t field, std::int64_t block) const override;
  void will_read(std::size_t field, std::int64_t first, std::int64_t count) const noexcept override;

 private:
  [[nodiscard]] const Hdf5Array& array(std::size_t field) const { return facts_->arrays[field]; }
  void read_contiguous(std::size_t field, std::int64_t first_sample, std::span<std::byte> out) const;
  void read_row(std::size_t field, std::int64_t block, std::span<std::byte> out) const;
  [[nodiscard]] ByteBuffer load_chunk(std::size_t field, std::size_t number) const;
  void read_bytes(std::uint64_t address, std::span<std::byte> out) const;

  const SampleSpec* spec_;
  const Hdf5File* facts_;
  File file_;
  std::shared_ptr<IoCounters> counters_;
};

}  // namespace mn::data
