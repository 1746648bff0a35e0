#include "facts/output_folder.hpp"

#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace mn::launcher {

namespace fs = std::filesystem;

fs::path output_folder(const Surroundings& here) {
  fs::path folder = here.folder;
  const auto& arguments = here.arguments;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--out" && i + 1 < arguments.size()) folder = here.folder / arguments[i + 1];
    if (arguments[i].starts_with("--out=")) folder = here.folder / arguments[i].substr(6);
  }
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

Marker::Marker(const fs::path& folder, const std::string& name) : path_(folder / (".mnlaunch-" + name)) {
  const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    path_.clear();
  } else {
    close(file);
  }
}

Marker::~Marker() {
  std::error_code error;
  if (!path_.empty()) fs::remove(path_, error);
}

}  // namespace mn::launcher
