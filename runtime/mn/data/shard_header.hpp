/// The first 4 KiB of a shard, all that mn needs to open it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <mn/data/shard_format.hpp>

namespace mn::data {

/// Throws UsageError if the description of the fields does not fit.
[[nodiscard]] UserBlock encode_header(const ShardHeader& header);
/// CRC32C of an encoded header; a manifest records it for each shard.
[[nodiscard]] std::uint32_t header_crc(std::span<const std::byte, kUserBlockBytes> block);
/// Throws DataError that begins with `file` if the block is not a shard's, is damaged, or contradicts itself. On return
/// every extent lies inside file_bytes and has the length that spec, block_samples and N require.
[[nodiscard]] ShardHeader decode_header(std::span<const std::byte, kUserBlockBytes> block, const std::string& file);

}  // namespace mn::data
