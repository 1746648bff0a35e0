#include "data/folder_names.hpp"

#include <algorithm>
#include <cstring>

namespace mn::data {
namespace {

constexpr std::size_t kNameBlock = 1 << 20;  // bytes; a name has a few hundred at most

}  // namespace

FolderNames::FolderNames(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
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
