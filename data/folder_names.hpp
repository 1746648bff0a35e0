/// The names in a folder, sorted.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <vector>

namespace mn::data {

/// The names of a folder's files and folders, each sorted by bytes, so that an order never depends on the file system.
/// What is hidden is left out; links are what they lead to. Memory: a name's bytes and 9 more, so that tens of millions
/// fit.
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
