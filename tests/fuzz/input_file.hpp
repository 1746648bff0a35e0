/// An input as a file in memory, for readers of files.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace mn::fuzz {

/// One file whose content is replaced from input to input.
class InputFile {
 public:
  explicit InputFile(const char* name) : fd_(memfd_create(name, 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {}
  /// False if there is no memory for it.
  bool replace(std::span<const std::byte> content) {
    return ftruncate(fd_, 0) == 0 &&
           pwrite(fd_, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size());
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

}  // namespace mn::fuzz
