#include "data/find_images.hpp"

#include <algorithm>
#include <cerrno>
#include <set>

#include <sys/stat.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "data/label_list.hpp"
#include "data/run_tasks.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

/// Looks up file sizes on several threads, and adds the files to the plan in the order of add().
class SizeLookup {
 public:
  /// `source` names the list of images in error texts.
  SizeLookup(const fs::path& root, const fs::path& source, int threads, ImagePlanWriter& plan)
      : root_(root), source_(source), threads_(threads), plan_(plan) {}

  void add(ListedImage candidate) {
    pending_.push_back(std::move(candidate));
    if (pending_.size() >= kAtOnce) flush();
  }

  /// Adds the remaining files. Call it after the last add().
  void flush() {
    std::vector<std::int64_t> sizes(pending_.size());
    const int threads = std::min(threads_, static_cast<int>(sizes.size() / kEach));
    run_tasks(sizes.size(), threads, [&](std::size_t i) { sizes[i] = look_up(pending_[i].key); });
    for (std::size_t i = 0; i < sizes.size(); ++i) add_to_plan(pending_[i], sizes[i]);
    pending_.clear();
  }

 private:
  static constexpr std::size_t kAtOnce = 1 << 16;  // candidates that are looked up at a time
  static constexpr std::size_t kEach = 1 << 8;     // least number of candidates for each thread

  /// The file's size. 0 if it is not a regular file, −errno if stat(2) fails.
  std::int64_t look_up(const std::string& key) const {
    struct stat facts = {};
    if (::stat((root_ / key).c_str(), &facts) != 0) return -errno;
    return S_ISREG(facts.st_mode) ? facts.st_size : 0;
  }

  void add_to_plan(const ListedImage& candidate, std::int64_t bytes) {
    if (bytes < 0 && candidate.line > 0) {
      throw DataError(
          with_errno(source_.string() + ":" + std::to_string(candidate.line) + ": " + (root_ / candidate.key).string(),
                     static_cast<int>(-bytes)));
    }
    plan_.add(candidate.key, candidate.label, bytes);
  }

  const fs::path& root_;
  const fs::path& source_;
  int threads_;
  ImagePlanWriter& plan_;
  std::vector<ListedImage> pending_;
};

void pass_over(const fs::path& file, ImageList& list) {
  if (list.passed_over++ == 0) list.first_passed_over = file;
}

/// Adds the images in root/folder, then in its subfolders, and returns their number. Follows links to folders, but
/// never enters a folder twice (`seen`): a link may lead to a folder above.
std::int64_t add_images(const fs::path& folder, std::int32_t label, std::set<fs::path>& seen, ImageList& list,
                        SizeLookup& images) {
  if (!seen.insert(fs::canonical(list.root / folder)).second) return 0;
  const FolderNames names = list_names(list.root / folder);
  std::int64_t count = 0;
  for (const std::string& name : names.files) {
    if (named_as_image(name)) {
      images.add({(folder / name).generic_string(), label, 0});
      ++count;
    } else {
      pass_over(list.root / folder / name, list);
    }
  }
  for (const std::string& name : names.folders) count += add_images(folder / name, label, seen, list, images);
  return count;
}

std::string empty_class_text(const ImageList& list) {
  if (list.passed_over == 0) return " is empty: remove its folder, or fill it";
  return " has no image: its files are of other kinds (" + std::to_string(list.passed_over) + ", such as " +
         list.first_passed_over.filename().string() + "): convert them to JPEG or PNG, or remove its folder";
}

ImageList list_folder(const fs::path& source, int threads, ImagePlanWriter& plan) {
  ImageList list;
  list.root = source;
  SizeLookup images(list.root, source, threads, plan);
  const FolderNames names = list_names(source);
  for (const std::string& name : names.files) pass_over(source / name, list);
  for (const std::string& name : names.folders) {
    std::set<fs::path> seen = {fs::canonical(source)};
    ImageList own{.root = list.root};  // facts about this class, for an error text
    if (add_images(name, static_cast<std::int32_t>(list.class_names.size()), seen, own, images) == 0) {
      throw DataError("class " + name + " in " + source.string() + empty_class_text(own));
    }
    if (list.passed_over == 0) list.first_passed_over = own.first_passed_over;
    list.passed_over += own.passed_over;
    list.class_names.push_back(utf8_text(name));
    if (list.class_names.back() != name && list.renamed++ == 0) list.first_renamed = list.class_names.back();
  }
  images.flush();
  list.num_classes = static_cast<std::int64_t>(list.class_names.size());
  if (plan.size() == 0) {
    throw DataError(source.string() +
                    " has no folders with images: one folder for each class is expected, or a file "
                    "of lines \"path label\"" +
                    (list.passed_over == 0 ? "" : "; it has files such as " + list.first_passed_over.string()));
  }
  return list;
}

void check_no_class_empty(const std::vector<bool>& seen, const fs::path& source) {
  const auto empty = std::find(seen.begin(), seen.end(), false);
  if (empty == seen.end()) return;
  throw DataError("class " + std::to_string(empty - seen.begin()) + " of the " + std::to_string(seen.size()) +
                  " classes in " + source.string() + " is empty: " + kNumberClasses);
}

void count_named_classes(const fs::path& names, const fs::path& source, ImageList& list) {
  const auto count = static_cast<std::int64_t>(list.class_names.size());
  if (count < list.num_classes) {
    throw DataError(names.string() + " names " + std::to_string(count) + " classes, but " + source.string() +
                    " has label " + std::to_string(list.num_classes - 1) + " (labels begin with 0)");
  }
  list.num_classes = count;
}

ImageList list_file(const fs::path& source, const ImageOptions& options, int threads, ImagePlanWriter& plan) {
  ImageList list;
  if (!options.classes.empty()) list.class_names = read_class_names(options.classes);
  list.root = source.has_parent_path() ? source.parent_path() : ".";
  SizeLookup images(list.root, source, threads, plan);
  std::vector<bool> seen;  // by label
  for_each_listed(source, {list.class_names, options.columns}, [&](ListedImage image) {
    const auto label = static_cast<std::size_t>(image.label);
    if (label >= seen.size()) seen.resize(label + 1);
    seen[label] = true;
    images.add(std::move(image));
  });
  images.flush();
  list.num_classes = static_cast<std::int64_t>(seen.size());
  if (plan.size() == 0) throw DataError(source.string() + " lists no images");
  if (options.classes.empty()) {
    check_no_class_empty(seen, source);
  } else {
    count_named_classes(options.classes, source, list);
  }
  return list;
}

}  // namespace

FolderNames list_names(const fs::path& folder) {
  FolderNames names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.front() != '.') (entry.is_directory() ? names.folders : names.files).push_back(name);
  }
  std::ranges::sort(names.files);
  std::ranges::sort(names.folders);
  return names;
}

ImageList list_images(const fs::path& source, const ImageOptions& options, int threads, ImagePlanWriter& plan) {
  try {
    if (fs::is_directory(source)) {
      if (!options.classes.empty()) throw UsageError("--classes is for list files: folders are named as their classes");
      if (!options.columns.empty()) throw UsageError("--columns is for a list NAME.csv or NAME.tsv, not a folder");
      return list_folder(source, threads, plan);
    }
    if (fs::is_regular_file(source)) return list_file(source, options, threads, plan);
  } catch (const fs::filesystem_error& error) {
    throw DataError(std::string("cannot list the images of ") + source.string() + ": " + error.what());
  }
  throw DataError("there is no folder or list file " + source.string());
}

}  // namespace mn::data
