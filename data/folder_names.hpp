/// Names of files and folders: which are images, and a folder's content in a fixed order.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mn::data {

/// Whether the file's name has one of the extensions that torchvision's ImageFolder reads.
[[nodiscard]] bool named_as_image(const std::filesystem::path& path);

/// The names of a folder's files and subfolders, sorted by bytes, so that the order does not depend on the file system.
/// Hidden names are left out. A link to a file counts as a file, and a link to a folder as a folder.
struct FolderNames {
  std::vector<std::string> files;
  std::vector<std::string> folders;
};

/// Throws std::filesystem::filesystem_error if the folder can't be read.
[[nodiscard]] FolderNames list_names(const std::filesystem::path& folder);

}  // namespace mn::data
