/// Opens files that processes lock with flock(2).
#pragma once

#include <cerrno>
#include <filesystem>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>

#include <mn/core/error.hpp>
#include <mn/core/fd.hpp>

namespace mn {

/// Opens the file for reading and writing, with additional `flags` for open(2). A symbolic link is an error. Returns an
/// empty Fd if open(2) fails; errno has the reason. Throws UsageError unless `path` is a regular file.
[[nodiscard]] inline Fd open_lock_file(const std::filesystem::path& path, int flags, mode_t mode) {
  Fd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, mode));
  struct stat facts {};
  if (file && ::fstat(file.get(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    throw UsageError(path.string() + " is not a regular file, as a lock is: remove it");
  }
  return file;
}

/// True if `path` still leads to the open file `file`. No value if the file system can't tell.
[[nodiscard]] inline std::optional<bool> is_file_at(const std::filesystem::path& path, const Fd& file) {
  struct stat own = {}, there = {};
  if (::fstat(file.get(), &own) != 0) return errno == ESTALE ? std::optional(false) : std::nullopt;
  if (::lstat(path.c_str(), &there) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? std::optional(false) : std::nullopt;
  }
  return own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

}  // namespace mn
