/// Opens the files that flock(2) locks.
#pragma once

#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>

#include <mn/core/error.hpp>
#include <mn/core/fd.hpp>

namespace mn {

/// open(2) for reading and writing, with `flags`; where that fails, an empty Fd, and errno says why. Follows no link.
/// Throws UsageError if it is not a regular file: a FIFO would have its opener wait for another process.
[[nodiscard]] inline Fd open_lock_file(const std::filesystem::path& path, int flags, mode_t mode) {
  Fd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, mode));
  struct stat facts {};
  if (file && ::fstat(file.get(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    throw UsageError(path.string() + " is not a regular file, as a lock is: remove it");
  }
  return file;
}

}  // namespace mn
