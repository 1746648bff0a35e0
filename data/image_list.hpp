/// Which images there are to convert.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/image_plan.hpp"

namespace mn::data {

/// What is known of all images together; the plan has each of them.
struct ImageList {
  std::filesystem::path root;                 ///< keys are relative to it
  std::vector<std::string> class_names = {};  ///< may be empty for list files
  std::int64_t num_classes = 0;
  std::int64_t passed_over = 0;  ///< files in no class folder, or whose names do not end as an image's does
  std::filesystem::path first_passed_over = {};
  std::int64_t renamed = 0;  ///< classes whose folders' names are not UTF-8
  std::string first_renamed = {};
};

/// Adds to `plan` the images of a folder of one folder for each class, with images in it or in folders within, as
/// torchvision's ImageFolder takes them; or those of a list file of lines "path label". What is hidden is left alone.
/// Sizes are looked up by `threads` at once; memory is that of the names in one folder. Throws DataError that names an
/// empty class, a malformed line, a file that is not there, or a source without images.
/// `class_names`, if not empty, is a file of names for the labels of a list, 0 first: at least as many as labels.
[[nodiscard]] ImageList list_images(const std::filesystem::path& source, const std::filesystem::path& class_names,
                                    int threads, ImagePlanWriter& plan);

/// Names of classes, one a line, label 0 first. Throws DataError that names a line that is empty, too long,
/// repeated or not UTF-8.
[[nodiscard]] std::vector<std::string> read_class_names(const std::filesystem::path& file);

}  // namespace mn::data
