#include "data/folder_names.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include <mn/core/text.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNameBlock = 1 << 20;  // bytes of a block; a name has a few hundred bytes at most

}  // namespace

bool named_as_image(const fs::path& path) {
  const std::string extension = to_lower(path.extension().string());
  constexpr const char* kExtensions[] = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
  return std::ranges::find(kExtensions, extension) != std::end(kExtensions);
}

FolderNames::FolderNames(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.front() == '.') continue;
    (entry.is_directory() ? folders_ : files_).push_back(keep(name.c_str()));
  }
  const auto by_bytes = [](const char* a, const char* b) { return std::strcmp(a, b) < 0; };
  std::sort(files_.begin(), files_.end(), by_bytes);
  std::sort(folders_.begin(), folders_.end(), by_bytes);
}

const char* FolderNames::keep(const char* name) {
  const std::size_t bytes = std::strlen(name) + 1;
  if (bytes > free_) {
    blocks_.push_back(std::make_unique<char[]>(kNameBlock));
    free_ = kNameBlock;
  }
  char* to = blocks_.back().get() + kNameBlock - free_;
  free_ -= bytes;
  return static_cast<const char*>(std::memcpy(to, name, bytes));
}

}  // namespace mn::data
