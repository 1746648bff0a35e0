/// Reads lists of images with their labels, and the names of classes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mn::data {

/// Labels of images: numbers from 0 to 2147483647, or names of classes.
class Labels {
 public:
  /// Label 0 first; without `class_names`, labels are numbers.
  explicit Labels(const std::vector<std::string>& class_names);
  /// The label in a text, which may have blanks around it; no value if it is not a label.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view text) const;
  /// What a label must be: the end of an error message.
  [[nodiscard]] std::string expected() const;

 private:
  std::map<std::string, std::int32_t, std::less<>> numbers_;  // label of each class name
};

/// Whether mn decodes such images. `extension` is in lower case, without its dot.
[[nodiscard]] bool is_image_extension(std::string_view extension);
/// The same for the file's name, in any case.
[[nodiscard]] bool named_as_image(const std::filesystem::path& path);

struct ListedImage {
  std::string key;         ///< path, as written in the list
  std::int32_t label = 0;  ///< 0 or more
  std::int64_t line = 0;   ///< line of the list; 0: the image is from no list
};

struct ListOptions {
  std::vector<std::string> class_names = {};  ///< names of the classes, label 0 first; a CSV may use them as labels
  std::string columns = {};                   ///< "PATH,LABEL": the CSV's columns to use; empty: it has only these two
};

/// Calls use(image) for each image of the list. A file NAME.csv or NAME.tsv is a CSV. Its first row is a header in two
/// cases: options.columns is given; or the row has no label, and its path neither exists nor has an image's extension.
/// Any other file has lines "path label". If a line is wrong, throws a DataError that names it. Throws UsageError if
/// options.columns is given and the file is no CSV.
void for_each_listed(const std::filesystem::path& list, const ListOptions& options,
                     const std::function<void(ListedImage)>& use);

/// Reads names of classes, one on each line, label 0 first. If a line is empty, too long, repeated or not UTF-8, throws
/// a DataError that names the line.
[[nodiscard]] std::vector<std::string> read_class_names(const std::filesystem::path& file);

}  // namespace mn::data
