#include "data/image_list.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/data/order.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

bool hidden(const fs::path& path) { return path.filename().string().front() == '.'; }

/// The entries of `folder`, sorted, so that labels do not depend on the file system.
std::vector<fs::directory_entry> sorted_entries(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!hidden(entry.path())) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// torchvision's ImageFolder takes the same.
bool named_as_image(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr const char* kExtensions[] = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
  return std::ranges::find(kExtensions, extension) != std::end(kExtensions);
}

void pass_over(const fs::path& file, ImageList& list) {
  if (list.passed_over++ == 0) list.first_passed_over = file;
}

/// The images in `folder`, then those of the folders in it. Links to folders are followed, but into none of `seen`:
/// they may lead back up.
void add_images(const fs::path& folder, std::int32_t label, std::set<fs::path>& seen, ImageList& list) {
  if (!seen.insert(fs::canonical(folder)).second) return;
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : sorted_entries(folder)) {
    const fs::path& path = entry.path();
    if (entry.is_directory()) {
      folders.push_back(path);
    } else if (named_as_image(path)) {
      const auto bytes = entry.is_regular_file() ? static_cast<std::int64_t>(entry.file_size()) : 0;
      list.files.push_back({path.lexically_relative(list.root).generic_string(), label, bytes});
    } else {
      pass_over(path, list);
    }
  }
  for (const fs::path& inner : folders) add_images(inner, label, seen, list);
}

ImageList list_folder(const fs::path& source) {
  ImageList list;
  list.root = source;
  for (const fs::directory_entry& entry : sorted_entries(source)) {
    if (!entry.is_directory()) {
      pass_over(entry.path(), list);
      continue;
    }
    const std::string name = entry.path().filename().string();
    const std::size_t before = list.files.size();
    std::set<fs::path> seen = {fs::canonical(source)};
    add_images(entry.path(), static_cast<std::int32_t>(list.class_names.size()), seen, list);
    if (list.files.size() == before) {
      throw DataError("class " + name + " in " + source.string() +
                      " is empty (no .jpg, .jpeg or .png file in it): remove its folder, or fill it");
    }
    list.class_names.push_back(name);
  }
  list.num_classes = static_cast<std::int64_t>(list.class_names.size());
  if (list.files.empty()) {
    throw DataError(source.string() +
                    " has no folders with images: one folder for each class is expected, or a file "
                    "of lines \"path label\"");
  }
  return list;
}

/// "path label", the path perhaps with spaces.
ImageFile parse_line(const std::string& line, const fs::path& root, const std::string& where) {
  const std::size_t space = line.find_last_of(" \t");
  ImageFile file;
  if (space == std::string::npos || space == 0)
    throw DataError(where + ": \"" + line + "\" is not of the form \"path label\"");
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data() + space + 1, end, file.label);
  if (error != std::errc() || stop != end || file.label < 0) {
    throw DataError(where + ": \"" + line.substr(space + 1) + "\" is not a label (a whole number from 0)");
  }
  file.key = line.substr(0, line.find_last_not_of(" \t", space) + 1);
  std::error_code failed;
  file.bytes = static_cast<std::int64_t>(fs::file_size(root / file.key, failed));
  if (failed) throw DataError(where + ": " + (root / file.key).string() + ": " + failed.message());
  return file;
}

/// Calls use(line, "FILE:NUMBER") for each line: without what is blank at its end, or the byte order mark of some
/// editors.
template <class Use>
void for_each_line(const fs::path& path, Use use) {
  std::ifstream lines(path);
  if (!lines) throw DataError("cannot open " + path.string());
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    if (number == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
    line.erase(line.find_last_not_of(" \t\r") + 1);
    use(line, path.string() + ":" + std::to_string(number));
  }
}

std::vector<std::string> read_class_names(const fs::path& path) {
  constexpr std::size_t kLongest = 255;  // bytes, as a folder's
  std::vector<std::string> names;
  std::map<std::string, std::string> seen;
  std::string blank;
  for_each_line(path, [&](const std::string& line, const std::string& where) {
    if (line.empty()) {
      blank = where;
      return;
    }
    if (!blank.empty()) throw DataError(blank + " is empty: line by line the names of labels 0, 1, … are expected");
    const auto [other, is_new] = seen.emplace(line, where);
    if (!is_new) throw DataError(where + ": class \"" + line + "\" was named at " + other->second + " already");
    if (line.size() > kLongest) throw DataError(where + ": a name of more than " + std::to_string(kLongest) + " bytes");
    names.push_back(line);
  });
  return names;
}

void check_no_class_empty(const ImageList& list, const fs::path& source) {
  std::vector<bool> seen(list.num_classes);
  for (const ImageFile& file : list.files) seen[file.label] = true;
  const auto empty = std::find(seen.begin(), seen.end(), false);
  if (empty == seen.end()) return;
  throw DataError("class " + std::to_string(empty - seen.begin()) + " of the " + std::to_string(list.num_classes) +
                  " classes in " + source.string() +
                  " is empty: number the labels without gaps, from 0, or name the classes with --classes");
}

void name_classes(const fs::path& names, const fs::path& source, ImageList& list) {
  list.class_names = read_class_names(names);
  const auto count = static_cast<std::int64_t>(list.class_names.size());
  if (count < list.num_classes) {
    throw DataError(names.string() + " names " + std::to_string(count) + " classes, but " + source.string() +
                    " has label " + std::to_string(list.num_classes - 1) + " (labels begin with 0)");
  }
  list.num_classes = count;
}

ImageList list_file(const fs::path& source, const fs::path& class_names) {
  ImageList list;
  list.root = source.has_parent_path() ? source.parent_path() : ".";
  for_each_line(source, [&](const std::string& line, const std::string& where) {
    if (line.empty()) return;
    list.files.push_back(parse_line(line, list.root, where));
    list.num_classes = std::max<std::int64_t>(list.num_classes, list.files.back().label + 1);
  });
  if (list.files.empty()) throw DataError(source.string() + " lists no images");
  if (class_names.empty()) {
    check_no_class_empty(list, source);
  } else {
    name_classes(class_names, source, list);
  }
  return list;
}

}  // namespace

ImageList list_images(const fs::path& source, const fs::path& class_names) {
  try {
    if (fs::is_directory(source)) {
      if (!class_names.empty()) throw UsageError("--classes is for list files: folders are named as their classes");
      return list_folder(source);
    }
    if (fs::is_regular_file(source)) return list_file(source, class_names);
  } catch (const fs::filesystem_error& error) {
    throw DataError(std::string("cannot list the images of ") + source.string() + ": " + error.what());
  }
  throw DataError("there is no folder or list file " + source.string());
}

ImagePlan plan_shards(const ImageList& list, bool shuffle, std::uint64_t seed, std::int64_t shard_bytes) {
  const EpochOrder order(static_cast<std::int64_t>(list.files.size()), {.shuffle = shuffle}, seed, 0);
  ImagePlan plan(1);
  std::int64_t filled = 0;
  for (std::size_t i = 0; i < list.files.size(); ++i) {
    const ImageFile& file = list.files[order(static_cast<std::int64_t>(i))];
    if (filled > 0 && filled + file.bytes > shard_bytes) {
      plan.emplace_back();
      filled = 0;
    }
    plan.back().push_back(file);
    filled += file.bytes;
  }
  return plan;
}

std::uint64_t hash_of(const ImagePlan& plan) {
  std::uint64_t hash = 0;
  for (const auto& shard : plan) {
    hash = hash64("shard", hash);
    for (const ImageFile& file : shard) {
      const std::int64_t facts[] = {file.label, file.bytes};
      hash = hash64(std::as_bytes(std::span(facts)), hash64(file.key, hash));
    }
  }
  return hash;
}

}  // namespace mn::data
