/// Reads lists of images with their labels, and the names of classes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace mn::data {

struct ListedImage {
  std::string key;         ///< path as the list has it
  std::int32_t label = 0;  ///< 0 or more
  std::int64_t line = 0;   ///< line of the list; 0: the image is from no list
};

struct ListOptions {
  std::vector<std::string> class_names = {};  ///< a CSV may have these in place of numbers: label 0 first
  std::string columns = {};                   ///< "PATH,LABEL": names of a CSV's columns; empty: it has these two
};

/// Calls use(image) for each image of the list. A file NAME.csv or NAME.tsv is a CSV, with a header or without; any
/// other file has lines "path label". Throws DataError that names the line with an error, and UsageError for `columns`
/// of a file that is no CSV.
void for_each_listed(const std::filesystem::path& list, const ListOptions& options,
                     const std::function<void(ListedImage)>& use);

/// Names of classes, one a line, label 0 first. Throws DataError that names a line that is empty, too long, repeated or
/// not UTF-8.
[[nodiscard]] std::vector<std::string> read_class_names(const std::filesystem::path& file);

}  // namespace mn::data
