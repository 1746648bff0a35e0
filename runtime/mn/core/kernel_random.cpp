#include <mn/core/kernel_random.hpp>

#include <cerrno>

#include <sys/random.h>

#include <mn/core/error.hpp>

namespace mn {

int fill_with_random(std::span<std::byte> bytes) noexcept {
  // One call suffices, because the kernel delivers up to 256 bytes at once, even if a signal arrives.
  return getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()) ? 0 : errno;
}

void draw_random(std::span<std::byte> bytes) {
  if (const int error = fill_with_random(bytes); error != 0) throw Error(with_errno("cannot draw random bytes", error));
}

}  // namespace mn
