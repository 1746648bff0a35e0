#include "tests/data/disk_room.hpp"

#include <atomic>

#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
constexpr double kUsually = 0.5;
std::atomic<double> free_part = kUsually;
}  // namespace

namespace mn::test {
FreePart::FreePart(double part) { free_part = part; }
FreePart::~FreePart() { free_part = kUsually; }
}  // namespace mn::test

// The C library's own is not called: the program's comes first.
extern "C" int fstatfs(int fd, struct statfs* facts) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_fstatfs, fd, facts));
  facts->f_bavail = static_cast<decltype(facts->f_bavail)>(static_cast<double>(facts->f_blocks) * free_part);
  return result;
}
