#include <mn/core/checksum.hpp>

#include <algorithm>

#include <isa-l/crc.h>

namespace mn {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) {
  // isal takes lengths of type int, so the bytes are passed in pieces. The caller of isal must invert the CRC at the
  // beginning and at the end.
  std::uint32_t crc = ~seed;
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  for (std::size_t done = 0; done < bytes.size(); done += kPiece) {
    const std::size_t length = std::min(kPiece, bytes.size() - done);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data() + done));
    crc = crc32_iscsi(data, static_cast<int>(length), crc);
  }
  return ~crc;
}

std::uint32_t crc32_gzip(std::span<const std::byte> bytes, std::uint32_t seed) {
  return crc32_gzip_refl(seed, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

}  // namespace mn
