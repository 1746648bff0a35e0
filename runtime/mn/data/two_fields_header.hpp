/// What the user blocks of all versions share, and that of versions 1 and 2: data and an int32 label.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include <mn/data/shard_format.hpp>

namespace mn::data {

static_assert(std::endian::native == std::endian::little, "shards are little endian and are read without conversion");

inline constexpr std::size_t kHeaderCrcAt = kUserBlockBytes - sizeof(std::uint32_t);

/// What all versions begin with.
struct StoredBegin {
  char magic[8];
  std::uint32_t version;
};

struct StoredExtent {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t crc;
  std::uint32_t reserved;
};
[[nodiscard]] inline StoredExtent stored(const Extent& extent) { return {extent.address, extent.bytes, extent.crc, 0}; }
[[nodiscard]] inline Extent loaded(const StoredExtent& extent) { return {extent.address, extent.bytes, extent.crc}; }

/// Throws DataError: `what` can't be.
[[noreturn]] void contradiction(const std::string& file, const std::string& what);

/// They write all but magic, version and checksum, and read what has passed the checks of these three. Counts and extents
/// are as they were found.
void encode_two_fields(const ShardHeader& header, UserBlock& block);
[[nodiscard]] ShardHeader decode_two_fields(std::span<const std::byte, kUserBlockBytes> block, const std::string& file);

}  // namespace mn::data
