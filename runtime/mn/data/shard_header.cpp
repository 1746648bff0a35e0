// The user block of a shard: what its versions have in common.
//
//   [0, 12)       magic, version
//   [12, 4092)    the rest of the header (two_fields_header.cpp, fields_header.cpp), zeros after it
//   [4092, 4096)  CRC32C of all before it
//
// (1) decode_header accepts only what passes, in this order: magic, version, checksum, sizes, extents. After that
//     products of its numbers can't overflow, and every extent lies inside the file and has the length that spec, form
//     and N call for.
// (2) Numbers are little endian and lie at fixed offsets.
// (3) What a shard holds is in the user block alone: HDF5's own structures are for other programs.
//
// Cost: one pread of 4 KiB opens a shard.
#include <algorithm>
#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/data/shard_header.hpp>
#include <mn/data/stored_header.hpp>

namespace mn::data {
namespace {

constexpr char kMagic[8] = {'M', 'N', 'S', 'H', 'A', 'R', 'D', '\n'};
constexpr std::uint64_t kMaxShardSamples = std::uint64_t{1} << 40;
constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{1} << 39;

void check_extents(ShardHeader& header, const std::string& file) {
  for (const NamedExtent& part : parts_of(header)) {
    const Extent& extent = *part.extent;
    const bool fits = part.multiple_of == 0 ? extent.bytes == part.bytes : extent.bytes % part.multiple_of == 0;
    if (!fits) contradiction(file, part.name + " has " + std::to_string(extent.bytes) + " bytes");
    const bool inside = extent.address <= header.file_bytes && extent.bytes <= header.file_bytes - extent.address;
    if (extent.bytes > 0 && (!inside || extent.address < kUserBlockBytes)) {
      contradiction(file, part.name + " lies outside the file");
    }
  }
}

}  // namespace

void contradiction(const std::string& file, const std::string& what) {
  throw DataError(file + ": its header contradicts itself (" + what + "): make the shard again with mnshard");
}

void check_counts(const ShardHeader& header, const std::string& file) {
  if (header.num_samples > kMaxShardSamples) {
    contradiction(file, std::to_string(header.num_samples) + " samples");
  }
  const auto block = static_cast<std::uint64_t>(header.form.block_samples);
  for (const FieldSpec& field : header.spec.fields) {
    const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(field.sample_bytes(), 1));
    if (header.num_samples > (std::uint64_t{1} << 60) / bytes) contradiction(file, "impossible size");
    if (block == 0 || block > kMaxBlockBytes / bytes) {
      contradiction(file, "blocks of " + std::to_string(block) + " samples");
    }
  }
}

UserBlock encode_header(const ShardHeader& header) {
  UserBlock block = {};
  StoredBegin begin = {};
  std::memcpy(begin.magic, kMagic, sizeof kMagic);
  begin.version = header.version();
  header.form.schema == ShardSchema::kFields ? encode_fields(header, block) : encode_two_fields(header, block);
  std::memcpy(block.data(), &begin, sizeof begin);
  const std::uint32_t crc = header_crc(block);
  std::memcpy(block.data() + kHeaderCrcAt, &crc, sizeof crc);
  return block;
}

std::uint32_t header_crc(std::span<const std::byte, kUserBlockBytes> block) {
  return crc32c(block.first(kHeaderCrcAt));
}

ShardHeader decode_header(std::span<const std::byte, kUserBlockBytes> block, const std::string& file) {
  StoredBegin begin;
  std::memcpy(&begin, block.data(), sizeof begin);
  if (std::memcmp(begin.magic, kMagic, sizeof kMagic) != 0) {
    throw DataError(file + " is not a shard: it does not begin with a shard's header (mnshard makes shards)");
  }
  if (begin.version < 1 || begin.version > kShardVersion) {
    throw DataError(file + " has version " + std::to_string(begin.version) +
                    " of the shard format, this program reads 1 to " + std::to_string(kShardVersion) +
                    ": make the shards again with this version's mnshard");
  }
  std::uint32_t crc = 0;
  std::memcpy(&crc, block.data() + kHeaderCrcAt, sizeof crc);
  if (crc != header_crc(block)) {
    throw DataError(file + ": the header is damaged (its checksum differs): copy the shard again or recreate it");
  }
  ShardHeader header = begin.version > kTwoFieldsVersion ? decode_fields(block, file) : decode_two_fields(block, file);
  check_counts(header, file);
  check_extents(header, file);
  return header;
}

}  // namespace mn::data
