#include <mn/core/checksum.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <vector>

#include <isa-l/crc.h>
#include <xxhash.h>

#include <mn/core/error.hpp>

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

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) { return hash64(std::as_bytes(std::span(text)), seed); }

std::uint64_t hash64_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError(with_errno("cannot open " + path.string() + " to hash it", errno));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<char> piece(1 << 20);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    XXH3_64bits_update(state.get(), piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) throw DataError(with_errno("cannot read " + path.string() + " to hash it", errno));
  return XXH3_64bits_digest(state.get());
}

}  // namespace mn
