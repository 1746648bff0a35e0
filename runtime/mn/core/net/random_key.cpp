#include <cerrno>

#include <sys/random.h>

#include <mn/core/error.hpp>
#include <mn/core/net/random_key.hpp>

namespace mn {

void draw_random(std::span<std::byte> bytes) {
  // Up to 256 bytes come whole, whatever signals arrive.
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error(with_errno("cannot draw a random key", errno));
  }
}

}  // namespace mn
