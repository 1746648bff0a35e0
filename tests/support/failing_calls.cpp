#include "tests/support/failing_calls.hpp"

#undef _FORTIFY_SOURCE  // its headers define some of these calls inline
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <initializer_list>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

constinit Plan plan;  // NOLINT: preloaded, it serves before main()
std::atomic<bool> armed = false;
std::atomic<std::int64_t> calls = 0;
std::atomic<bool> exchanges_refused = false;
constinit std::string look_end;  // NOLINT
std::atomic<int> look_error = 0;
constinit std::string open_end;  // NOLINT
std::atomic<int> opens_to_fail = 0;
std::atomic<int> open_error = 0;
std::atomic<int> record = -1;                    // a descriptor
std::atomic<int> opens = 0;                      // numbers of opened files begin at 1
std::array<std::atomic<int>, 4096> opened = {};  // those of descriptors below the folder; 0: another file
constexpr std::string_view kDigits = "0123456789abcdef";

enum class Verdict { kAsAlways, kFail, kShort };

bool is_below(std::string_view path) {
  return path.starts_with(plan.folder) && (path.size() == plan.folder.size() || path[plan.folder.size()] == '/');
}

Verdict next_call() {
  const std::int64_t number = calls++;
  if (number != plan.at && !(plan.from_then_on && number > plan.at)) return Verdict::kAsAlways;
  if (plan.fault == CallFault::kNone) return Verdict::kAsAlways;
  if (plan.fault == CallFault::kKill) ::kill(::getpid(), SIGKILL);
  if (plan.fault == CallFault::kShort) return Verdict::kShort;
  errno = plan.error;
  return Verdict::kFail;
}

int id_of(int fd) { return fd >= 0 && fd < static_cast<int>(opened.size()) ? opened[fd].load() : 0; }
Verdict judge(const char* path) { return armed && is_below(path) ? next_call() : Verdict::kAsAlways; }
Verdict judge(int fd) { return armed && id_of(fd) != 0 ? next_call() : Verdict::kAsAlways; }

bool fails_look(std::string_view path) {
  if (look_error == 0 || !path.ends_with(look_end)) return false;
  errno = look_error;
  return true;
}

void note(std::initializer_list<std::string_view> fields) {
  if (record < 0) return;
  const int saved_errno = errno;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::string line = std::to_string(now.tv_sec * 1'000'000'000LL + now.tv_nsec);
  for (const std::string_view field : fields) line.append("\t").append(field);
  line += '\n';
  ::syscall(SYS_write, record.load(), line.data(), line.size());
  errno = saved_errno;
}

/// Notes a call that has changed a path.
int noted(int result, std::initializer_list<std::string_view> fields, const char* path) {
  if (result == 0 && armed && is_below(path)) note(fields);
  return result;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool fails_open(std::string_view path) {
  if (opens_to_fail <= 0 || !path.ends_with(open_end)) return false;
  --opens_to_fail;
  errno = open_error;
  return true;
}

int open_with(const char* name, const char* path, int flags, mode_t mode) {
  if (fails_open(path)) return -1;
  if (judge(path) == Verdict::kFail) return -1;
  struct stat before = {};
  const bool is_new = (flags & O_CREAT) != 0 && armed && ::lstat(path, &before) != 0;
  const int fd = real<int(const char*, int, ...)>(name)(path, flags, mode);
  if (fd < 0 || fd >= static_cast<int>(opened.size())) return fd;
  opened[fd] = armed && is_below(path) ? ++opens : 0;
  if (opened[fd] == 0) return fd;
  const std::string id = std::to_string(opened[fd]);
  note({is_new ? "create" : "open", id, path});
  if (!is_new && (flags & O_TRUNC) != 0) note({"truncate", id, "0"});
  return fd;
}

ssize_t write_with(const char* name, int fd, const void* data, std::size_t bytes, off_t offset) {
  const Verdict verdict = judge(fd);
  if (verdict == Verdict::kFail) return -1;
  if (verdict == Verdict::kShort && bytes > 1) bytes /= 2;
  const ssize_t written = real<ssize_t(int, const void*, std::size_t, off_t)>(name)(fd, data, bytes, offset);
  if (written <= 0 || record < 0 || id_of(fd) == 0) return written;
  std::string hex;
  for (const auto byte : std::basic_string_view(static_cast<const unsigned char*>(data), written)) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  note({"write", std::to_string(id_of(fd)), std::to_string(offset), hex});
  return written;
}

int remove_with(const char* name, const char* path) {
  if (judge(path) == Verdict::kFail) return -1;
  return noted(real<int(const char*)>(name)(path), {"remove", path}, path);
}

}  // namespace

void fail_call(const std::filesystem::path& folder, std::int64_t at, CallFault fault, int error, bool from_then_on) {
  plan = {folder.string(), at, fault, error, from_then_on};
  calls = 0;
  armed = true;
}

std::int64_t stop_failing() {
  armed = false;
  return calls;
}

void fail_looks(const std::string& end_of_path, int error) {
  look_end = end_of_path;
  look_error = end_of_path.empty() ? 0 : error;
}

void fail_opens(const std::string& end_of_path, int times, int error) {
  open_end = end_of_path;
  opens_to_fail = times;
  open_error = error;
}

void refuse_exchanges(bool refuse) { exchanges_refused = refuse; }
void record_calls(int fd) { record = fd; }

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
int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if ((flags & O_DIRECTORY) != 0 && fails_look(path)) return -1;
  return real<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
}
int lstat(const char* path, struct stat* facts) noexcept {
  return fails_look(path) ? -1 : real<int(const char*, struct stat*)>("lstat")(path, facts);
}
/// What a library that was built for an older libc calls, as libtorch, whose std::filesystem then serves all.
int __lxstat(int version, const char* path, struct stat* facts) noexcept {  // NOLINT
  return fails_look(path) ? -1 : real<int(int, const char*, struct stat*)>("__lxstat")(version, path, facts);
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return write_with("pwrite", fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off_t offset) {
  return write_with("pwrite64", fd, data, bytes, offset);
}
int ftruncate(int fd, off_t length) noexcept {
  if (judge(fd) == Verdict::kFail) return -1;
  const int result = real<int(int, off_t)>("ftruncate")(fd, length);
  if (result == 0 && id_of(fd) != 0) note({"truncate", std::to_string(id_of(fd)), std::to_string(length)});
  return result;
}
int fsync(int fd) {
  if (judge(fd) == Verdict::kFail) return -1;
  const int result = real<int(int)>("fsync")(fd);
  if (result == 0 && id_of(fd) != 0) note({"sync", std::to_string(id_of(fd))});
  return result;
}
int close(int fd) {
  const bool fails = judge(fd) == Verdict::kFail;
  if (id_of(fd) != 0) opened[fd] = 0;
  const int result = real<int(int)>("close")(fd);  // a close that fails has closed
  return fails ? -1 : result;
}
int rename(const char* from, const char* to) noexcept {
  if (judge(from) == Verdict::kFail) return -1;
  return noted(real<int(const char*, const char*)>("rename")(from, to), {"rename", from, to}, from);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (judge(from) == Verdict::kFail) return -1;
  if (exchanges_refused) {
    errno = EINVAL;
    return -1;
  }
  using Function = int(int, const char*, int, const char*, unsigned);
  const int result = real<Function>("renameat2")(from_folder, from, to_folder, to, flags);
  return noted(result, {(flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename", from, to}, from);
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (judge(path) == Verdict::kFail) return -1;
  return noted(real<int(const char*, mode_t)>("mkdir")(path, mode), {"mkdir", path}, path);
}
int symlink(const char* target, const char* path) noexcept {
  if (judge(path) == Verdict::kFail) return -1;
  return noted(real<int(const char*, const char*)>("symlink")(target, path), {"symlink", target, path}, path);
}
int remove(const char* path) noexcept { return remove_with("remove", path); }
int unlink(const char* path) noexcept { return remove_with("unlink", path); }
int rmdir(const char* path) noexcept { return remove_with("rmdir", path); }
}
