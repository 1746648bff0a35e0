/// A file of records that a run appends to, whole after each write and also after one that failed.
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
    kAfterLastLine  ///< it goes on; a line that a kill has cut off becomes one by itself
  };
  /// Folders are made where they are missing, by the first write.
  AppendedFile(std::filesystem::path path, Start start) : path_(std::move(path)) {
    if (start == Start::kAnew) bytes_ = 0;
  }

  void add(std::string_view record) { waiting_ += record; }
  /// Writes what was added. DataError if that fails: the file is as it was before, and the next call tries again.
  void write();

 private:
  std::filesystem::path path_;
  std::optional<std::uint64_t> bytes_;  // of the file; no value: not known yet
  std::string waiting_;
};

}  // namespace mn::extensions
