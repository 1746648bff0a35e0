#include "data/folder_names.hpp"

#include <algorithm>
#include <iterator>

#include <mn/core/text.hpp>

namespace mn::data {

bool named_as_image(const std::filesystem::path& path) {
  const std::string extension = to_lower(path.extension().string());
  constexpr const char* kExtensions[] = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
  return std::ranges::find(kExtensions, extension) != std::end(kExtensions);
}

FolderNames list_names(const std::filesystem::path& folder) {
  FolderNames names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.front() != '.') (entry.is_directory() ? names.folders : names.files).push_back(name);
  }
  std::ranges::sort(names.files);
  std::ranges::sort(names.folders);
  return names;
}

}  // namespace mn::data
