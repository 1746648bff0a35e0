/// Writes and reads numbers in messages. A number takes four bytes, the lowest byte first.
#pragma once

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>

namespace mn {

inline constexpr std::size_t kNumberBytes = 4;

inline void append_number(std::string& bytes, std::uint32_t number) {
  for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(number >> shift & 0xffU);
}

[[nodiscard]] inline std::uint32_t number_in(std::string_view bytes) {
  assert(bytes.size() >= kNumberBytes);
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < kNumberBytes; ++i) {
    number |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return number;
}

}  // namespace mn
