/// Lists the images to convert.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/image_intake.hpp"
#include "data/image_plan.hpp"

namespace mn::data {

/// What to do if a label below the largest one has no sample.
inline constexpr const char* kNumberClasses =
    "number the labels without gaps, from 0, or name the classes with --classes";

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

/// Facts about all images together; the plan has each image.
struct ImageList {
  std::filesystem::path root;                 ///< keys are relative to this folder
  std::vector<std::string> class_names = {};  ///< may be empty for list files
  std::int64_t num_classes = 0;
  std::int64_t passed_over = 0;  ///< files in no class folder, or without an image's extension
  std::filesystem::path first_passed_over = {};
  std::int64_t renamed = 0;  ///< classes with folder names that are not UTF-8
  std::string first_renamed = {};
};

/// Adds to `plan` the images of a folder with a subfolder for each class, which holds images and further subfolders, as
/// torchvision's ImageFolder reads them; or the images of a list (for_each_listed()). Ignores hidden files.
/// Looks up sizes on `threads` threads; the memory is the names in one folder. Throws DataError that names an empty
/// class, a malformed line, a missing file, or a source without images.
/// options.classes, if not empty, is a file with names for the labels of a list, label 0 first: at least as many names
/// as labels.
[[nodiscard]] ImageList list_images(const std::filesystem::path& source, const ImageOptions& options, int threads,
                                    ImagePlanWriter& plan);

}  // namespace mn::data
