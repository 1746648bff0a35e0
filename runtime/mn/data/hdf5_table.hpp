/// The table of a dataset in ordinary HDF5 files: which of their bytes hold which samples. `mnshard index` makes it. In
/// a file it is manifest.h5, as a ShardTable is (see manifest_file.cpp), on the wire a CBOR document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/chunk_list.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

/// One field in one file: an HDF5 dataset whose first dimension counts the samples.
struct Hdf5Array {
  bool is_swapped = false;             ///< its elements are big-endian
  std::uint64_t address = kNotStored;  ///< contiguous: of the first sample
  std::vector<std::int64_t> chunk;     ///< [dims] its shape with the samples first; empty: contiguous
  std::vector<std::int32_t> filters;   ///< in the order of their application
  std::vector<std::uint8_t> fill;      ///< an element, as stored
  ChunkList chunks;                    ///< row by row of the grid that chunks make
  bool operator==(const Hdf5Array&) const = default;

  /// Samples that are read together: a chunk's, or about 64 KiB of contiguous ones.
  [[nodiscard]] std::int64_t block_samples(const FieldSpec& field) const;
  /// Chunks along each dimension but the first, for samples of that shape.
  [[nodiscard]] std::vector<std::int64_t> grid(const FieldSpec& field) const;
};

struct Hdf5File {
  std::string path;  ///< as the manifest has it: from its folder, or absolute
  std::int64_t num_samples = 0;
  std::int64_t bytes = 0;              ///< size of the file when it was indexed
  std::int64_t modified_ns = 0;        ///< when it was last written, since 1970
  std::uint64_t digest = 0;            ///< a hash of some values: tells other data of the same name and length
  std::vector<Hdf5Array> arrays = {};  ///< one for each field
  bool operator==(const Hdf5File&) const = default;
};

/// The files of a dataset, in order: samples are numbered through them.
class Hdf5Table final : public StoredTable {
 public:
  /// Throws DataError if that can't be: more than a file has, fields that are not fixed, …
  Hdf5Table(std::string folder, std::string split, SampleSpec spec, std::vector<Hdf5File> files);

  [[nodiscard]] const std::vector<Hdf5File>& files() const noexcept { return files_; }
  [[nodiscard]] std::filesystem::path path(std::size_t file) const override;
  [[nodiscard]] std::int64_t file_bytes(std::size_t file) const override { return files_[file].bytes; }
  [[nodiscard]] StorageLayout layout() const override;

  /// Hash of what the samples are, the files' names, lengths and digests: equal for equal data wherever it lies.
  [[nodiscard]] std::uint64_t hash() const override;
  [[nodiscard]] std::string serialize() const override;
  /// Whether `bytes` are such a table, and not a ShardTable.
  [[nodiscard]] static bool is_table(std::string_view bytes);
  /// Throws DataError if `bytes` is not a table. `folder`: in place of the one in it, unless empty.
  [[nodiscard]] static Hdf5Table parse(std::string_view bytes, const std::string& folder = {});

  /// Throws DataError if the file is not there, or was changed since it was indexed.
  void check_unchanged(std::size_t file) const override;
  /// The same of all files.
  void check_all_unchanged() const;

 private:
  std::vector<Hdf5File> files_;
};

/// Publishes FOLDER/manifest.h5 at once.
void write_hdf5_manifest(const Hdf5Table& table);
/// Whether the folder's manifest is one of indexed files. DataError if it can't be read.
[[nodiscard]] bool has_hdf5_manifest(const std::filesystem::path& folder);
/// Throws DataError that names the folder if it is damaged.
[[nodiscard]] Hdf5Table read_hdf5_manifest(const std::filesystem::path& folder);

/// When a file was last written, in ns since 1970, and its length. Throws FileError.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> modified_and_bytes(const std::filesystem::path& path);

}  // namespace mn::data
