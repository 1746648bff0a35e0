/// The table of a dataset in ordinary HDF5 files, made by `mnshard index`: tells the file and position of each sample.
/// On disk the table is manifest.h5 (manifest_file.cpp); between ranks it is sent as a CBOR document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/data/hdf5_reader.hpp>
#include <mn/data/stored_table.hpp>

namespace mn::data {

/// The files of a dataset, in order. Samples are numbered consecutively through all files.
class Hdf5Table final : public StoredTable {
 public:
  /// Throws DataError if the table is inconsistent in itself or with the files' lengths, or if a field is not fixed.
  Hdf5Table(std::string folder, std::string split, SampleSpec spec, std::vector<Hdf5File> files);

  [[nodiscard]] const std::vector<Hdf5File>& files() const noexcept { return files_; }
  [[nodiscard]] std::filesystem::path path(std::size_t file) const override;
  [[nodiscard]] std::int64_t file_bytes(std::size_t file) const override { return files_[file].bytes; }
  [[nodiscard]] StorageLayout layout() const override;

  /// A hash of the spec and of the files' names, numbers of samples, and digests; independent of the folder.
  [[nodiscard]] std::uint64_t hash() const override;
  [[nodiscard]] std::string serialize() const override;
  /// Tells the results of Hdf5Table::serialize() from the results of ShardTable::serialize().
  [[nodiscard]] static bool is_table(std::string_view bytes);
  /// Reads a result of serialize(). If `folder` is not empty, it replaces the folder in `bytes`. Throws DataError if
  /// `bytes` is not a table.
  [[nodiscard]] static Hdf5Table parse(std::string_view bytes, const std::string& folder = {});

  void check_unchanged(std::size_t file) const override;
  void check_all() const override;
  [[nodiscard]] std::shared_ptr<const StoredFile> open(std::size_t file, File bytes,
                                                       std::shared_ptr<IoCounters> counters) const override;

 private:
  std::vector<Hdf5File> files_;
};

/// Writes manifest.h5 in the table's folder, and publishes it by rename(2).
void write_hdf5_manifest(const Hdf5Table& table);
/// Whether the folder's manifest lists indexed HDF5 files, not shards. Throws DataError if the manifest can't be read.
[[nodiscard]] bool has_hdf5_manifest(const std::filesystem::path& folder);
/// Reads manifest.h5 in the folder. If it is damaged, throws a DataError that names the folder.
[[nodiscard]] Hdf5Table read_hdf5_manifest(const std::filesystem::path& folder);

/// Time of a file's last write, in ns since 1970, and its length. Throws FileError.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> modified_and_bytes(const std::filesystem::path& path);

}  // namespace mn::data
