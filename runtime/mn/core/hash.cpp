#include <cerrno>
#include <fstream>
#include <memory>
#include <vector>

#include <xxhash.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>

namespace mn {

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
