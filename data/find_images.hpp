/// Lists the images to convert.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/image_intake.hpp"
#include "data/image_plan.hpp"

namespace mn::data {

/// The names of a folder's files and subfolders, sorted by bytes, so that the order does not depend on the file system.
/// Without hidden names. A link counts as what it leads to, a file or a folder.
struct FolderNames {
  std::vector<std::string> files;
  std::vector<std::string> folders;
};

[[nodiscard]] FolderNames list_names(const std::filesystem::path& folder);

/// Advice in an error text, if a label has no sample but a larger label has.
inline constexpr const char* kNumberClasses =
    "number the labels without gaps, from 0, or name the classes with --classes";

/// Facts about all images together. The plan (ImagePlan) lists the images.
struct ImageList {
  std::filesystem::path root;                 ///< keys are relative to this folder
  std::vector<std::string> class_names = {};  ///< may be empty if the source is a list
  std::int64_t num_classes = 0;
  std::int64_t passed_over = 0;  ///< files outside class folders, or without an image's extension
  std::filesystem::path first_passed_over = {};
  std::int64_t renamed = 0;  ///< classes with folder names that are not UTF-8
  std::string first_renamed = {};
};

/// Adds the images of `source` to `plan`. The source is a folder with a subfolder for each class, as torchvision's
/// ImageFolder reads it, or a list (for_each_listed()). Ignores hidden files. Looks up file sizes on `threads` threads.
/// Memory: the names in one folder. If a class is empty, a line is malformed, a file is missing, or the source has no
/// image, throws a DataError that names this class, line, file or source. If options.classes is not empty, it is a file
/// with names for the labels of a list, label 0 first; it must have a name for every label.
[[nodiscard]] ImageList list_images(const std::filesystem::path& source, const ImageOptions& options, int threads,
                                    ImagePlanWriter& plan);

}  // namespace mn::data
