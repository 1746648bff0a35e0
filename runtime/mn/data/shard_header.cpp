// The user block of a shard: what its versions have in common.
//
//   [0, 12)       magic, version
//   [12, 4092)    the rest of the header, zeros after it: of versions 1 and 2 in two_fields_header.cpp
//   [4092, 4096)  CRC32C of all before it
//
// Versions 3 and 4, whose fields have names:
//
//   [0, 64)              struct StoredFields: magic, version, counts, uuid, length of the description
//   [64, 88)             version 4: the extent of the table of blocks, zeros where there is none
//   [.., .. + 72 F)      for each field the extents of its values, offsets and checksums
//   [.., .. + bytes)     to_json() of the spec, without classes, as text
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
#include <mn/core/json.hpp>
#include <mn/data/shard_header.hpp>
#include <mn/data/two_fields_header.hpp>

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

struct StoredFields {
  StoredBegin begin;
  std::uint32_t num_fields;
  std::uint64_t num_samples;
  std::uint64_t file_bytes;
  std::uint64_t block_samples;
  std::byte uuid[16];
  std::uint32_t spec_bytes;
  std::uint32_t reserved;
};
static_assert(sizeof(StoredFields) == 64);

struct StoredField {
  StoredExtent values;
  StoredExtent offsets;
  StoredExtent checksums;
};
static_assert(sizeof(StoredField) == 72);

constexpr std::uint32_t kWithoutBlockTable = 3;  // the version

SampleSpec spec_of(std::string_view text, const std::string& file) {
  const std::string what = file + ": its header";
  SampleSpec spec = without_classes(sample_spec_from_json(parse_json(text, what), what));
  if (const std::string problem = storage_problem(spec); !problem.empty()) contradiction(file, problem);
  return spec;
}

void encode_fields(const ShardHeader& header, UserBlock& block) {
  const std::string spec = to_json(header.spec).dump();
  const std::size_t fields_at = sizeof(StoredFields) + sizeof(StoredExtent);
  const std::size_t spec_at = fields_at + header.fields.size() * sizeof(StoredField);
  if (spec_at + spec.size() > kHeaderCrcAt) {
    throw UsageError("samples of " + std::to_string(header.fields.size()) +
                     " fields do not fit into a shard: their description takes " +
                     std::to_string(spec_at + spec.size()) + " bytes of " + std::to_string(kHeaderCrcAt) +
                     "; give them shorter names, or make one field of those of one dtype");
  }
  StoredFields stored = {};
  stored.num_fields = static_cast<std::uint32_t>(header.fields.size());
  stored.num_samples = header.num_samples;
  stored.file_bytes = header.file_bytes;
  stored.block_samples = static_cast<std::uint64_t>(header.form.block_samples);
  std::copy(header.uuid.begin(), header.uuid.end(), stored.uuid);
  stored.spec_bytes = static_cast<std::uint32_t>(spec.size());
  std::memcpy(block.data(), &stored, sizeof stored);
  const StoredExtent blocks = data::stored(header.block_begins);
  std::memcpy(block.data() + sizeof stored, &blocks, sizeof blocks);
  std::byte* to = block.data() + fields_at;
  for (const FieldExtents& field : header.fields) {
    const StoredField extents{data::stored(field.values), data::stored(field.offsets), data::stored(field.checksums)};
    std::memcpy(to, &extents, sizeof extents);
    to += sizeof extents;
  }
  std::memcpy(to, spec.data(), spec.size());
}

ShardHeader decode_fields(std::span<const std::byte, kUserBlockBytes> block, const std::string& file) {
  StoredFields stored;
  std::memcpy(&stored, block.data(), sizeof stored);
  const bool tells_blocks = stored.begin.version > kWithoutBlockTable;
  const std::size_t fields_at = sizeof stored + (tells_blocks ? sizeof(StoredExtent) : 0);
  const std::size_t room = (kHeaderCrcAt - fields_at) / sizeof(StoredField);
  if (stored.num_fields > room) contradiction(file, std::to_string(stored.num_fields) + " fields");
  const std::size_t spec_at = fields_at + stored.num_fields * sizeof(StoredField);
  if (stored.spec_bytes > kHeaderCrcAt - spec_at) contradiction(file, "a description longer than the header");

  ShardHeader header;
  header.spec = spec_of({reinterpret_cast<const char*>(block.data()) + spec_at, stored.spec_bytes}, file);
  if (header.spec.fields.size() != stored.num_fields) {
    contradiction(file, std::to_string(stored.num_fields) + " fields");
  }
  constexpr auto kMaxBlock = std::uint64_t{1} << 40;
  header.form = {ShardSchema::kFields, static_cast<std::int64_t>(std::min(stored.block_samples, kMaxBlock))};
  header.num_samples = stored.num_samples;
  header.file_bytes = stored.file_bytes;
  std::copy(std::begin(stored.uuid), std::end(stored.uuid), header.uuid.begin());
  if (tells_blocks) {
    StoredExtent blocks;
    std::memcpy(&blocks, block.data() + sizeof stored, sizeof blocks);
    header.block_begins = loaded(blocks);
    const bool wanted = has_block_table(header.spec, header.form);
    if (wanted != (blocks.bytes > 0)) contradiction(file, "a table of " + std::to_string(blocks.bytes) + " bytes");
  }
  for (std::size_t f = 0; f < stored.num_fields; ++f) {
    StoredField extents;
    std::memcpy(&extents, block.data() + fields_at + f * sizeof extents, sizeof extents);
    header.fields.push_back({loaded(extents.values), loaded(extents.offsets), loaded(extents.checksums)});
  }
  return header;
}

}  // namespace

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
