// Writes and reads the user block of a shard.
//
//   [0, 64)              struct StoredFields: magic, version, counts, uuid, length of the description
//   [64, 88)             the extent of the table of blocks, zeros where there is none
//   [88, 88 + 72 F)      for each field the extents of its values, offsets and checksums
//   [.., .. + 72)        where has_images is 1: the extents of sizes, keys, and where each key begins
//   [.., .. + bytes)     to_json() of the spec, without classes, as text; zeros after it
//   [4092, 4096)         CRC32C of all before it
//
// (1) decode_header() checks magic, version, checksum, sizes and extents, in this order. After the checks, products of
//     the header's numbers can't overflow, and every extent lies inside the file and has the length that spec,
//     block_samples and N require.
// (2) Numbers are little endian and lie at fixed offsets.
// (3) mn reads the user block, and not HDF5's own structures, which are for other programs. Cost: one pread of 4 KiB
//     opens a shard.
#include <mn/data/shard_format.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn::data {
namespace {

constexpr char kMagic[8] = {'M', 'N', 'S', 'H', 'A', 'R', 'D', '\n'};
constexpr std::uint64_t kMaxShardSamples = std::uint64_t{1} << 40;
constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{1} << 39;
constexpr std::size_t kHeaderCrcAt = kUserBlockBytes - sizeof(std::uint32_t);
static_assert(std::endian::native == std::endian::little, "shards are little endian and are read without conversion");

/// The bytes with which every version of the format begins.
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
StoredExtent stored(const Extent& extent) { return {extent.address, extent.bytes, extent.crc, 0}; }
Extent loaded(const StoredExtent& extent) { return {extent.address, extent.bytes, extent.crc}; }

/// Throws a DataError that says that the header's `what` is impossible.
[[noreturn]] void contradiction(const std::string& file, const std::string& what) {
  throw DataError(file + ": its header contradicts itself (" + what + "): make the shard again with mnshard");
}

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
  if (header.num_samples > kMaxShardSamples) contradiction(file, std::to_string(header.num_samples) + " samples");
  const auto block = static_cast<std::uint64_t>(header.block_samples);
  for (const FieldSpec& field : header.spec.fields) {
    const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(field.sample_bytes(), 1));
    if (header.num_samples > (std::uint64_t{1} << 60) / bytes) contradiction(file, "impossible size");
    const bool is_block = block > 0 && block <= kMaxBlockBytes / bytes;
    if (!is_block) contradiction(file, "blocks of " + std::to_string(block) + " samples");
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
  std::uint32_t has_images;
};
static_assert(sizeof(StoredFields) == 64);

struct StoredField {
  StoredExtent values;
  StoredExtent offsets;
  StoredExtent checksums;
};
static_assert(sizeof(StoredField) == 72);

/// Pointers to the header's extents, in the order in which the user block holds them: three for each field, then three
/// for images.
std::vector<std::array<Extent*, 3>> rows_of(ShardHeader& header) {
  std::vector<std::array<Extent*, 3>> rows;
  for (FieldExtents& field : header.fields) rows.push_back({&field.values, &field.offsets, &field.checksums});
  ImageExtents& images = header.images;
  if (header.has_images) rows.push_back({&images.hwc, &images.key_bytes, &images.key_offsets});
  return rows;
}

SampleSpec spec_of(std::string_view text, const std::string& file) {
  const std::string what = file + ": its header";
  SampleSpec spec = without_classes(sample_spec_from_json(parse_json(text, what), what));
  if (const std::string problem = storage_problem(spec); !problem.empty()) contradiction(file, problem);
  return spec;
}

ShardHeader decode_fields(std::span<const std::byte, kUserBlockBytes> block, const std::string& file) {
  StoredFields stored;
  std::memcpy(&stored, block.data(), sizeof stored);
  if (stored.has_images > 1) contradiction(file, "images " + std::to_string(stored.has_images));
  constexpr std::size_t rows_at = sizeof stored + sizeof(StoredExtent);
  const std::size_t room = (kHeaderCrcAt - rows_at) / sizeof(StoredField);
  if (stored.num_fields > room - 1) contradiction(file, std::to_string(stored.num_fields) + " fields");
  const std::size_t spec_at = rows_at + (stored.num_fields + stored.has_images) * sizeof(StoredField);
  if (stored.spec_bytes > kHeaderCrcAt - spec_at) contradiction(file, "a description longer than the header");

  ShardHeader header;
  header.spec = spec_of({reinterpret_cast<const char*>(block.data()) + spec_at, stored.spec_bytes}, file);
  if (header.spec.fields.size() != stored.num_fields) contradiction(file, "another number of fields");
  header.block_samples = static_cast<std::int64_t>(std::min(stored.block_samples, std::uint64_t{1} << 40));
  header.num_samples = stored.num_samples;
  header.file_bytes = stored.file_bytes;
  std::copy(std::begin(stored.uuid), std::end(stored.uuid), header.uuid.begin());
  StoredExtent blocks;
  std::memcpy(&blocks, block.data() + sizeof stored, sizeof blocks);
  header.block_begins = loaded(blocks);
  const bool wanted = has_block_table(header.spec, header.block_samples);
  if (wanted != (blocks.bytes > 0)) contradiction(file, "a table of " + std::to_string(blocks.bytes) + " bytes");
  header.fields.resize(stored.num_fields);
  header.has_images = stored.has_images == 1;
  const std::byte* from = block.data() + rows_at;
  for (const auto& [first, second, third] : rows_of(header)) {
    StoredField row;
    std::memcpy(&row, from, sizeof row);
    *first = loaded(row.values), *second = loaded(row.offsets), *third = loaded(row.checksums);
    from += sizeof row;
  }
  return header;
}

}  // namespace

UserBlock encode_header(const ShardHeader& given) {
  ShardHeader header = given;
  const std::string spec = json_text(to_json(header.spec));
  const auto rows = rows_of(header);
  const std::size_t rows_at = sizeof(StoredFields) + sizeof(StoredExtent);
  const std::size_t spec_at = rows_at + rows.size() * sizeof(StoredField);
  if (spec_at + spec.size() > kHeaderCrcAt) {
    throw UsageError("samples of " + std::to_string(header.fields.size()) +
                     " fields do not fit into a shard: their description takes " +
                     std::to_string(spec_at + spec.size()) + " bytes of " + std::to_string(kHeaderCrcAt) +
                     "; shorten the names of fields, or join fields of one dtype");
  }
  StoredFields fields = {.begin = {},
                         .num_fields = static_cast<std::uint32_t>(header.fields.size()),
                         .num_samples = header.num_samples,
                         .file_bytes = header.file_bytes,
                         .block_samples = static_cast<std::uint64_t>(header.block_samples),
                         .uuid = {},
                         .spec_bytes = static_cast<std::uint32_t>(spec.size()),
                         .has_images = header.has_images ? 1U : 0U};
  std::memcpy(fields.begin.magic, kMagic, sizeof kMagic);
  fields.begin.version = kShardVersion;
  std::copy(header.uuid.begin(), header.uuid.end(), fields.uuid);
  UserBlock block = {};
  std::memcpy(block.data(), &fields, sizeof fields);
  const StoredExtent blocks = stored(header.block_begins);
  std::memcpy(block.data() + sizeof fields, &blocks, sizeof blocks);
  std::byte* to = block.data() + rows_at;
  for (const auto& [first, second, third] : rows) {
    const StoredField row{stored(*first), stored(*second), stored(*third)};
    std::memcpy(to, &row, sizeof row);
    to += sizeof row;
  }
  std::memcpy(to, spec.data(), spec.size());
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
  if (begin.version != kShardVersion) {
    throw DataError(file + " has version " + std::to_string(begin.version) +
                    " of the shard format, this program reads " + std::to_string(kShardVersion) +
                    ": make the shards again with this version's mnshard");
  }
  std::uint32_t crc = 0;
  std::memcpy(&crc, block.data() + kHeaderCrcAt, sizeof crc);
  if (crc != header_crc(block)) {
    throw DataError(file + ": the header is damaged (its checksum differs): copy the shard again or recreate it");
  }
  ShardHeader header = decode_fields(block, file);
  check_counts(header, file);
  check_extents(header, file);
  return header;
}

}  // namespace mn::data
