/// Checksums and hashes: CRC-32C for data that mn stores, CRC-32 for data in other programs' formats, XXH3 for
/// comparisons.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace mn {

/// The CRC-32C of `bytes` (RFC 3720, B.4). If `seed` is the CRC of earlier bytes, the result is the CRC of the earlier
/// bytes and `bytes` together. crc32c("123456789") is 0xE3069283.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed = 0);

/// The CRC-32 of `bytes`, as in gzip (RFC 1952), ZIP and PNG. `seed` may be the CRC of earlier bytes, as in crc32c().
/// crc32_gzip("123456789") is 0xCBF43926.
[[nodiscard]] std::uint32_t crc32_gzip(std::span<const std::byte> bytes, std::uint32_t seed = 0);

/// The 64-bit hash XXH3 of the data, to compare data between ranks. Do not store the hash in files.
[[nodiscard]] std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);
[[nodiscard]] std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);

/// The hash XXH3 of a whole file, which is read in pieces. Throws DataError if the file can't be read.
[[nodiscard]] std::uint64_t hash64_file(const std::filesystem::path& path);

}  // namespace mn
