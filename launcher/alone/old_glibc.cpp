// arc4random() of glibc 2.36: Debian's libstdc++.a calls it in std::random_device. With this one, mnlaunch also runs on
// an older glibc.
#include <cstdint>
#include <cstdlib>
#include <span>

#include <mn/core/kernel_random.hpp>

extern "C" std::uint32_t arc4random() {
  std::uint32_t number = 0;
  if (mn::fill_with_random(std::as_writable_bytes(std::span(&number, 1))) != 0) std::abort();
  return number;
}
