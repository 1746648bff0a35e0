/// Names of files and folders: which are images, and a folder's content in a fixed order.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <vector>

namespace mn::data {

/// Whether the file's name has one of the extensions that torchvision's ImageFolder reads.
[[nodiscard]] bool named_as_image(const std::filesystem::path& path);

/// The names of a folder's files and subfolders, sorted by bytes, so that the order does not depend on the file system.
/// Hidden names are left out. A link to a file counts as a file, and a link to a folder as a folder. Memory: the bytes
/// of the names and 9 bytes for each name, so tens of millions of names fit.
class FolderNames {
 public:
  /// Throws std::filesystem::filesystem_error if the folder can't be read.
  explicit FolderNames(const std::filesystem::path& folder);

  [[nodiscard]] const std::deque<const char*>& files() const noexcept { return files_; }
  [[nodiscard]] const std::deque<const char*>& folders() const noexcept { return folders_; }

 private:
  const char* keep(const char* name);

  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t free_ = 0;  // unused bytes at the end of the last block
  std::deque<const char*> files_;
  std::deque<const char*> folders_;
};

}  // namespace mn::data
