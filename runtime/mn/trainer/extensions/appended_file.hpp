/// A file to which a run appends records. After each write, and even after a failed write, the file holds only whole
/// records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mn::extensions {

class AppendedFile {
 public:
  enum class Start {
    kAnew,          ///< the first write empties the file
    kAfterLastLine  ///< the first write appends; if the file's last line is cut off, the write ends that line
  };
  /// Does not open the file yet. The first write makes the file's folders if they are missing.
  AppendedFile(std::filesystem::path path, Start start) : path_(std::move(path)) {
    if (start == Start::kAnew) bytes_ = 0;
  }

  /// Keeps a record in memory until the next call of write().
  void add(std::string_view record) { waiting_ += record; }
  /// Appends all records that add() has kept. If the write fails, throws DataError, and the next call writes the same
  /// records.
  void write();

 private:
  std::filesystem::path path_;
  std::optional<std::uint64_t> bytes_;  // length of the whole records in the file; no value: not known yet
  std::string waiting_;                 // records for the next write
};

}  // namespace mn::extensions
