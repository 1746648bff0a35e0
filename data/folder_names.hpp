/// The names in a folder, sorted.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <vector>

namespace mn::data {

/// The names of a folder's files and subfolders, each sorted by bytes, so that the order does not depend on the file
/// system. Hidden names are left out; links count as their targets. Memory: 9 bytes more than a name's bytes, so tens
/// of millions of names fit.
class FolderNames {
 public:
  /// Throws std::filesystem::filesystem_error if the folder can't be read.
  explicit FolderNames(const std::filesystem::path& folder);

  [[nodiscard]] const std::deque<const char*>& files() const noexcept { return files_; }
  [[nodiscard]] const std::deque<const char*>& folders() const noexcept { return folders_; }

 private:
  const char* keep(const char* name);

  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t free_ = 0;  // bytes at the end of the last block
  std::deque<const char*> files_;
  std::deque<const char*> folders_;
};

}  // namespace mn::data
