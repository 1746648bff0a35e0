#include "tests/support/failing_calls.hpp"

#undef _FORTIFY_SOURCE  // its headers define some of these calls inline
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mn::test {
namespace {

struct Plan {
  std::string folder;
  std::int64_t at = 0;
  CallFault fault = CallFault::kKill;
  int error = 0;
  bool from_then_on = false;
};

Plan plan;  // NOLINT
std::atomic<bool> armed = false;
std::atomic<std::int64_t> calls = 0;
std::array<std::atomic<bool>, 4096> opened = {};  // descriptors of files below the folder

enum class Verdict { kAsAlways, kFail, kShort };

Verdict next_call() {
  const std::int64_t number = calls++;
  if (number != plan.at && !(plan.from_then_on && number > plan.at)) return Verdict::kAsAlways;
  if (plan.fault == CallFault::kKill) ::kill(::getpid(), SIGKILL);
  if (plan.fault == CallFault::kShort) return Verdict::kShort;
  errno = plan.error;
  return Verdict::kFail;
}

Verdict judge(const char* path) {
  return armed && std::string_view(path).starts_with(plan.folder) ? next_call() : Verdict::kAsAlways;
}

bool is_known(int fd) { return fd >= 0 && fd < static_cast<int>(opened.size()) && opened[fd]; }
Verdict judge(int fd) { return armed && is_known(fd) ? next_call() : Verdict::kAsAlways; }

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int open_with(const char* name, const char* path, int flags, mode_t mode) {
  if (judge(path) == Verdict::kFail) return -1;
  const int fd = real<int(const char*, int, ...)>(name)(path, flags, mode);
  if (fd >= 0 && fd < static_cast<int>(opened.size())) {
    opened[fd] = armed && std::string_view(path).starts_with(plan.folder);
  }
  return fd;
}

ssize_t write_with(const char* name, int fd, const void* data, std::size_t bytes, off_t offset) {
  const Verdict verdict = judge(fd);
  if (verdict == Verdict::kFail) return -1;
  if (verdict == Verdict::kShort && bytes > 1) bytes /= 2;
  return real<ssize_t(int, const void*, std::size_t, off_t)>(name)(fd, data, bytes, offset);
}

}  // namespace

void fail_call(const std::filesystem::path& folder, std::int64_t at, CallFault fault, int error, bool from_then_on) {
  plan = {folder.string() + "/", at, fault, error, from_then_on};
  calls = 0;
  armed = true;
}

std::int64_t stop_failing() {
  armed = false;
  return calls;
}

}  // namespace mn::test

using namespace mn::test;  // NOLINT

extern "C" {
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_with("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_with("open64", path, flags, mode);
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return write_with("pwrite", fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off_t offset) {
  return write_with("pwrite64", fd, data, bytes, offset);
}
int fsync(int fd) { return judge(fd) == Verdict::kFail ? -1 : real<int(int)>("fsync")(fd); }
int close(int fd) {
  const bool fails = judge(fd) == Verdict::kFail;
  if (is_known(fd)) opened[fd] = false;
  const int result = real<int(int)>("close")(fd);  // a close that fails has closed
  return fails ? -1 : result;
}
int rename(const char* from, const char* to) noexcept {
  return judge(from) == Verdict::kFail ? -1 : real<int(const char*, const char*)>("rename")(from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (judge(from) == Verdict::kFail) return -1;
  return real<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from, to_folder, to, flags);
}
int mkdir(const char* path, mode_t mode) noexcept {
  return judge(path) == Verdict::kFail ? -1 : real<int(const char*, mode_t)>("mkdir")(path, mode);
}
int remove(const char* path) noexcept {
  return judge(path) == Verdict::kFail ? -1 : real<int(const char*)>("remove")(path);
}
}
