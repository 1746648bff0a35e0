// Writes and reads the user block of a shard.
//
//   [0, 88)              struct StoredFields: magic, version, counts, uuid, length of the description, table of blocks
//   [88, 88 + 72 F)      for each field its FieldExtents
//   [.., .. + 72)        if has_images is 1: the ImageExtents
//   [.., .. + bytes)     to_json() of the spec, without classes, as text; zeros after it
//   [4092, 4096)         CRC32C of all before it
//
// (1) decode_header() checks magic, version, checksum, sizes and extents, in this order. After the checks, products of
//     the header's numbers can't overflow, and every extent lies inside the file and has the length that spec,
//     block_samples and N require.
// (2) Numbers are little endian and lie at fixed offsets.
// (3) mn does not read HDF5's own structures, which are for other programs.
#include <mn/data/shard_format.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn::data {
namespace {

constexpr std::uint64_t kMaxShardSamples = std::uint64_t{1} << 40;
constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{1} << 39;
constexpr std::size_t kHeaderCrcAt = kUserBlockBytes - sizeof(std::uint32_t);
static_assert(std::endian::native == std::endian::little, "shards are little endian and are read without conversion");

struct StoredFields {
  // Every version of the format begins with these two members.
  char magic[8] = {'M', 'N', 'S', 'H', 'A', 'R', 'D', '\n'};
  std::uint32_t version = kShardVersion;
  std::uint32_t num_fields = 0;
  std::uint64_t num_samples = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t block_samples = 0;
  Uuid uuid = {};
  std::uint32_t spec_bytes = 0;
  std::uint32_t has_images = 0;
  Extent block_begins = {};
};
constexpr std::size_t kExtentsAt = sizeof(StoredFields);
static_assert(kExtentsAt == 88 && sizeof(FieldExtents) == 72 && sizeof(ImageExtents) == 72);

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

SampleSpec spec_of(std::string_view text, const std::string& file) {
  const std::string what = file + ": its header";
  SampleSpec spec = without_classes(sample_spec_from_json(parse_json(text, what), what));
  if (const std::string problem = storage_problem(spec); !problem.empty()) contradiction(file, problem);
  return spec;
}

ShardHeader decode_fields(const StoredFields& stored, std::span<const std::byte, kUserBlockBytes> block,
                          const std::string& file) {
  if (stored.has_images > 1) contradiction(file, "images " + std::to_string(stored.has_images));
  constexpr std::size_t kRoom = (kHeaderCrcAt - kExtentsAt) / sizeof(FieldExtents);
  if (stored.num_fields > kRoom - 1) contradiction(file, std::to_string(stored.num_fields) + " fields");
  const std::size_t images_at = kExtentsAt + stored.num_fields * sizeof(FieldExtents);
  const std::size_t spec_at = images_at + stored.has_images * sizeof(ImageExtents);
  if (stored.spec_bytes > kHeaderCrcAt - spec_at) contradiction(file, "a description longer than the header");

  ShardHeader header;
  header.spec = spec_of({reinterpret_cast<const char*>(block.data()) + spec_at, stored.spec_bytes}, file);
  if (header.spec.fields.size() != stored.num_fields) contradiction(file, "another number of fields");
  header.block_samples = static_cast<std::int64_t>(std::min(stored.block_samples, std::uint64_t{1} << 40));
  header.num_samples = stored.num_samples;
  header.file_bytes = stored.file_bytes;
  header.uuid = stored.uuid;
  header.block_begins = stored.block_begins;
  const bool wanted = has_block_table(header.spec, header.block_samples);
  if (wanted != (header.block_begins.bytes > 0)) {
    contradiction(file, "a table of " + std::to_string(header.block_begins.bytes) + " bytes");
  }
  header.fields.resize(stored.num_fields);
  std::memcpy(header.fields.data(), block.data() + kExtentsAt, images_at - kExtentsAt);
  header.has_images = stored.has_images == 1;
  if (header.has_images) std::memcpy(&header.images, block.data() + images_at, sizeof header.images);
  return header;
}

}  // namespace

UserBlock encode_header(const ShardHeader& header) {
  const std::string spec = json_text(to_json(header.spec));
  const std::size_t images_at = kExtentsAt + header.fields.size() * sizeof(FieldExtents);
  const std::size_t spec_at = images_at + (header.has_images ? sizeof header.images : 0);
  if (spec_at + spec.size() > kHeaderCrcAt) {
    throw UsageError("samples of " + std::to_string(header.fields.size()) +
                     " fields do not fit into a shard: their description takes " +
                     std::to_string(spec_at + spec.size()) + " bytes of " + std::to_string(kHeaderCrcAt) +
                     "; shorten the names of fields, or join fields of one dtype");
  }
  const StoredFields fields = {.num_fields = static_cast<std::uint32_t>(header.fields.size()),
                               .num_samples = header.num_samples,
                               .file_bytes = header.file_bytes,
                               .block_samples = static_cast<std::uint64_t>(header.block_samples),
                               .uuid = header.uuid,
                               .spec_bytes = static_cast<std::uint32_t>(spec.size()),
                               .has_images = header.has_images ? 1U : 0U,
                               .block_begins = header.block_begins};
  UserBlock block = {};
  std::memcpy(block.data(), &fields, sizeof fields);
  std::memcpy(block.data() + kExtentsAt, header.fields.data(), images_at - kExtentsAt);
  if (header.has_images) std::memcpy(block.data() + images_at, &header.images, sizeof header.images);
  std::memcpy(block.data() + spec_at, spec.data(), spec.size());
  const std::uint32_t crc = header_crc(block);
  std::memcpy(block.data() + kHeaderCrcAt, &crc, sizeof crc);
  return block;
}

std::uint32_t header_crc(std::span<const std::byte, kUserBlockBytes> block) {
  return crc32c(block.first(kHeaderCrcAt));
}

ShardHeader decode_header(std::span<const std::byte, kUserBlockBytes> block, const std::string& file) {
  StoredFields stored;
  std::memcpy(&stored, block.data(), sizeof stored);
  if (std::memcmp(stored.magic, StoredFields().magic, sizeof stored.magic) != 0) {
    throw DataError(file + " is not a shard: it does not begin with a shard's header (mnshard makes shards)");
  }
  if (stored.version != kShardVersion) {
    throw DataError(file + " has version " + std::to_string(stored.version) +
                    " of the shard format, this program reads " + std::to_string(kShardVersion) +
                    ": make the shards again with this version's mnshard");
  }
  std::uint32_t crc = 0;
  std::memcpy(&crc, block.data() + kHeaderCrcAt, sizeof crc);
  if (crc != header_crc(block)) {
    throw DataError(file + ": the header is damaged (its checksum differs): copy the shard again or recreate it");
  }
  ShardHeader header = decode_fields(stored, block, file);
  check_counts(header, file);
  check_extents(header, file);
  return header;
}

}  // namespace mn::data
