/// Positions of the samples in an indexed HDF5 file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <mn/data/chunk_list.hpp>
#include <mn/data/sample_spec.hpp>

namespace mn::data {

/// A field in one file: an HDF5 dataset whose first dimension counts samples.
struct Hdf5Array {
  bool is_swapped = false;             ///< the elements are big-endian
  std::uint64_t address = kNotStored;  ///< contiguous: of the first sample
  std::vector<std::int64_t> chunk;     ///< [dims] shape of a chunk, samples first; empty: contiguous
  std::vector<std::int32_t> filters;   ///< in the order of their application
  std::vector<std::uint8_t> fill;      ///< an element, as stored
  ChunkList chunks;                    ///< row by row of the grid of chunks
  bool operator==(const Hdf5Array&) const = default;

  /// Samples read together: the samples of a chunk, or about 64 KiB of contiguous samples.
  [[nodiscard]] std::int64_t block_samples(const FieldSpec& field) const {
    constexpr std::int64_t kContiguousBlockBytes = 64 << 10;
    constexpr std::int64_t kAloneBytes = 32 << 10;  // a block would hold only one or two such samples
    if (!chunk.empty()) return chunk[0];
    if (field.sample_bytes() >= kAloneBytes) return 1;
    return std::max<std::int64_t>(kContiguousBlockBytes / std::max<std::int64_t>(field.sample_bytes(), 1), 1);
  }
  /// Number of chunks along each dimension except the first, for samples of the field's shape.
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
  std::uint64_t digest = 0;            ///< hash of some values: tells apart files of equal name and length
  std::vector<Hdf5Array> arrays = {};  ///< [fields]
  bool operator==(const Hdf5File&) const = default;
};

}  // namespace mn::data
