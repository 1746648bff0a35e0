/// The table of a dataset's files, which one rank reads and sends to all ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mn/core/file.hpp>
#include <mn/data/dataset.hpp>
#include <mn/data/stored_file.hpp>

namespace mn::data {

/// The files of a dataset, in order. Samples are numbered consecutively through all files.
class StoredTable {
 public:
  virtual ~StoredTable() = default;

  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  [[nodiscard]] const std::string& split() const noexcept { return split_; }
  [[nodiscard]] const SampleSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] std::int64_t num_samples() const noexcept { return firsts_.back(); }
  [[nodiscard]] std::size_t num_files() const noexcept { return firsts_.size() - 1; }
  [[nodiscard]] std::int64_t first(std::size_t file) const { return firsts_[file]; }
  /// Returns the sample's file, and the sample's number in this file.
  [[nodiscard]] std::pair<std::size_t, std::int64_t> locate(std::int64_t sample) const {
    const auto next = std::upper_bound(firsts_.begin(), firsts_.end(), sample);
    const auto file = static_cast<std::size_t>(next - firsts_.begin()) - 1;
    return {file, sample - firsts_[file]};
  }
  [[nodiscard]] virtual std::filesystem::path path(std::size_t file) const = 0;
  [[nodiscard]] virtual std::int64_t file_bytes(std::size_t file) const = 0;
  [[nodiscard]] std::int64_t total_bytes() const {
    std::int64_t total = 0;
    for (std::size_t file = 0; file < num_files(); ++file) total += file_bytes(file);
    return total;
  }
  /// Whether open files keep the field in memory (StoredFile::is_small()).
  [[nodiscard]] virtual bool is_small(std::size_t) const { return false; }
  [[nodiscard]] virtual StorageLayout layout() const = 0;
  /// A hash of the data, independent of the folder.
  [[nodiscard]] virtual std::uint64_t hash() const = 0;
  /// The table as bytes, which parse() of the same class reads.
  [[nodiscard]] virtual std::string serialize() const = 0;
  /// Throws DataError if the file's length or time of last write has changed since the table was made. Reads no
  /// content.
  virtual void check_unchanged(std::size_t) const {}
  /// `bytes` is the file, or a copy of it. Throws DataError if the content differs from the table's description. The
  /// table must outlive the result.
  [[nodiscard]] virtual std::shared_ptr<const StoredFile> open(std::size_t file, File bytes,
                                                               std::shared_ptr<IoCounters> counters) const = 0;
  /// Opens a file for a check of this file alone. Throws as check_unchanged() and open() do.
  [[nodiscard]] std::shared_ptr<const StoredFile> open_alone(std::size_t file) const {
    check_unchanged(file);
    return open(file, File(path(file), File::Mode::kRead), std::make_shared<IoCounters>());
  }
  /// Throws a DataError that names the first file that is missing or changed.
  virtual void check_all() const = 0;

 protected:
  StoredTable() = default;
  StoredTable(std::string folder, std::string split, SampleSpec spec)
      : folder_(std::move(folder)), split_(std::move(split)), spec_(std::move(spec)) {}
  StoredTable(const StoredTable&) = default;
  StoredTable(StoredTable&&) = default;
  StoredTable& operator=(const StoredTable&) = default;
  StoredTable& operator=(StoredTable&&) = default;
  void add_file(std::int64_t samples) { firsts_.push_back(firsts_.back() + samples); }

 private:
  std::string folder_;
  std::string split_;
  SampleSpec spec_;
  std::vector<std::int64_t> firsts_ = {0};  // [files + 1]
};

}  // namespace mn::data
