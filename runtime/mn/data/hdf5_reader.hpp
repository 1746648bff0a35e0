/// Describes where the samples lie in an indexed HDF5 file, and reads them by pread, without libhdf5 and its lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/data/chunk_list.hpp>
#include <mn/data/sample_spec.hpp>
#include <mn/data/stored_file.hpp>

namespace mn::data {

/// A field in one file: an HDF5 dataset whose first dimension counts samples.
struct Hdf5Array {
  bool is_swapped = false;             ///< the elements are big-endian
  std::uint64_t address = kNotStored;  ///< address of the first sample if the dataset is contiguous
  std::vector<std::int64_t> chunk;     ///< [dims] shape of a chunk, samples first; empty if the dataset is contiguous
  std::vector<std::int32_t> filters;   ///< filters' numbers, in the order in which the writer applied the filters
  std::vector<std::uint8_t> fill;      ///< the fill value: one element, in the file's byte order
  ChunkList chunks;                    ///< in row-major order of the grid of chunks
  bool operator==(const Hdf5Array&) const = default;

  /// Number of samples in a block: the samples of one chunk or, if the dataset is contiguous, about 64 KiB.
  [[nodiscard]] std::int64_t block_samples(const FieldSpec& field) const {
    constexpr std::int64_t kContiguousBlockBytes = 64 << 10;
    constexpr std::int64_t kAloneBytes = 32 << 10;  // a sample of at least this size is a block alone
    if (!chunk.empty()) return chunk[0];
    if (field.sample_bytes() >= kAloneBytes) return 1;
    return std::max<std::int64_t>(kContiguousBlockBytes / std::max<std::int64_t>(field.sample_bytes(), 1), 1);
  }
  /// The number of chunks along each dimension of the dataset except the first.
  [[nodiscard]] std::vector<std::int64_t> grid(const FieldSpec& field) const {
    std::vector<std::int64_t> counts;
    for (std::size_t d = 1; d < chunk.size(); ++d) counts.push_back((field.shape[d - 1] + chunk[d] - 1) / chunk[d]);
    return counts;
  }
};

struct Hdf5File {
  std::string path;  ///< relative to the manifest's folder, or absolute
  std::int64_t num_samples = 0;
  std::int64_t bytes = 0;              ///< size of the file when it was indexed
  std::int64_t modified_ns = 0;        ///< time of the last write, in ns since 1970
  std::uint64_t digest = 0;            ///< hash of some values, to distinguish files of equal name and length
  std::vector<Hdf5Array> arrays = {};  ///< [fields]
  bool operator==(const Hdf5File&) const = default;
};

/// An open HDF5 file. A block of a chunked field has all chunks with values of one range of samples. Thread-safe.
class Hdf5Reader final : public StoredFile {
 public:
  /// `bytes` is the file that `facts` describes, or a copy of it. `spec` and `facts` must outlive the reader.
  Hdf5Reader(const SampleSpec& spec, const Hdf5File& facts, File bytes, std::shared_ptr<IoCounters> counters);

  [[nodiscard]] std::int64_t size() const noexcept override { return facts_->num_samples; }
  [[nodiscard]] std::int64_t begin_of(std::size_t field, std::int64_t sample) const override {
    return sample * (*spec_)[field].sample_bytes();
  }

  [[nodiscard]] std::int64_t block_of(std::size_t field, std::int64_t sample) const override {
    return sample / block_samples(field);
  }
  [[nodiscard]] std::int64_t first_sample(std::size_t field, std::int64_t block) const override {
    return std::min(block * block_samples(field), size());
  }
  [[nodiscard]] bool has_runs(std::size_t field) const noexcept override { return array(field).chunk.empty(); }

  /// Reads the samples' values, in C order and the machine's byte order.
  void read_blocks(std::size_t field, std::int64_t first, std::int64_t count, std::span<std::byte> out) const override;
  [[nodiscard]] std::string damage(std::size_t field, std::int64_t block) const override;
  void will_read(std::size_t field, std::int64_t first, std::int64_t count) const noexcept override;

 private:
  [[nodiscard]] const Hdf5Array& array(std::size_t field) const { return facts_->arrays[field]; }
  [[nodiscard]] std::int64_t block_samples(std::size_t field) const {
    return array(field).block_samples((*spec_)[field]);
  }
  void read_contiguous(std::size_t field, std::int64_t begin, std::span<std::byte> out) const;
  void read_row(std::size_t field, std::int64_t block, std::span<std::byte> out) const;
  [[nodiscard]] ByteBuffer load_chunk(std::size_t field, std::size_t number) const;
  void read_bytes(std::uint64_t address, std::span<std::byte> out) const;

  const SampleSpec* spec_;
  const Hdf5File* facts_;
  File file_;
  std::shared_ptr<IoCounters> counters_;
};

}  // namespace mn::data
