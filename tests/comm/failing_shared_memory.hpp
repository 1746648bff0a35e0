/// Replacements of shm_open and posix_fallocate, which record requests and fail on demand. Include in one source of a
/// program.
#pragma once

#include <algorithm>
#include <cerrno>
#include <limits>
#include <set>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace {

std::set<std::string> names_made;
bool fail_to_make = false;
bool fail_to_open = false;
off_t room = std::numeric_limits<off_t>::max();  // limit of a segment
off_t most_asked_for = 0;

}  // namespace

extern "C" int posix_fallocate(int descriptor, off_t offset, off_t bytes) {
  most_asked_for = std::max(most_asked_for, bytes);
  if (bytes > room) return ENOSPC;
  const auto next = reinterpret_cast<int (*)(int, off_t, off_t)>(dlsym(RTLD_NEXT, "posix_fallocate"));
  return next(descriptor, offset, bytes);
}

extern "C" int shm_open(const char* name, int flags, mode_t mode) {
  const bool makes = (flags & O_CREAT) != 0;
  if (makes ? fail_to_make : fail_to_open) {
    errno = makes ? EMFILE : ENOENT;
    return -1;
  }
  if (makes && std::string(name).starts_with("/mn.")) {  // MPI opens others, perhaps left by killed jobs
    names_made.insert(name);
    EXPECT_EQ(mode, 0600U);
    EXPECT_TRUE((flags & O_EXCL) != 0);
  }
  const auto next = reinterpret_cast<int (*)(const char*, int, mode_t)>(dlsym(RTLD_NEXT, "shm_open"));
  return next(name, flags, mode);
}
