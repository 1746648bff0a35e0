/// The table of a dataset in ordinary HDF5 files: which of their bytes hold which samples. `mnshard index` makes it. In
/// a file it is manifest.h5, as a ShardTable is (see manifest_file.cpp), on the wire a CBOR document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/hdf5_array.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

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
  void check_all() const override;
  [[nodiscard]] std::shared_ptr<const StoredFile> open(std::size_t file, File bytes,
                                                       std::shared_ptr<IoCounters> counters) const override;

 private:
  std::vector<Hdf5File> files_;
};

class Hdf5Reader;
/// Opens a file of the table, which must outlive the result. Throws DataError if the file is not there, or was changed
/// since it was indexed.
[[nodiscard]] std::shared_ptr<const Hdf5Reader> open_indexed(const Hdf5Table& table, std::size_t file);

/// Publishes FOLDER/manifest.h5 at once.
void write_hdf5_manifest(const Hdf5Table& table);
/// Whether the folder's manifest is one of indexed files. DataError if it can't be read.
[[nodiscard]] bool has_hdf5_manifest(const std::filesystem::path& folder);
/// Throws DataError that names the folder if it is damaged.
[[nodiscard]] Hdf5Table read_hdf5_manifest(const std::filesystem::path& folder);

/// When a file was last written, in ns since 1970, and its length. Throws FileError.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> modified_and_bytes(const std::filesystem::path& path);

}  // namespace mn::data
