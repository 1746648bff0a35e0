// To be preloaded: each open() and pread() takes SLOW_CALLS_US microseconds more (2,000), as on a distant file server.
#include <cstdarg>
#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

template <class Call>
Call next(const char* name) {
  static const useconds_t pause = [] {
    const char* const given = std::getenv("SLOW_CALLS_US");
    return static_cast<useconds_t>(given != nullptr ? std::atoi(given) : 2000);
  }();
  usleep(pause);
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

mode_t mode_of(int flags, va_list more) { return (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return next<int (*)(const char*, int, ...)>("open")(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return next<int (*)(const char*, int, ...)>("open64")(path, flags, mode);
}

ssize_t pread(int fd, void* out, size_t bytes, off_t offset) {
  return next<ssize_t (*)(int, void*, size_t, off_t)>("pread")(fd, out, bytes, offset);
}

ssize_t pread64(int fd, void* out, size_t bytes, off64_t offset) {
  return next<ssize_t (*)(int, void*, size_t, off64_t)>("pread64")(fd, out, bytes, offset);
}
}
