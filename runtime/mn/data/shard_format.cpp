// The user block of a shard: encoding, and decoding of bytes that may be damaged or hostile.
//
//   [0, 288)      struct Stored: magic, version, kind, dtype, shape, counts, uuid, one extent for each section
//   [288, 296)    version 2: samples in a block
//   [296, 4092)   zeros
//   [4092, 4096)  CRC32C of all before it
//
// (1) decode_header accepts only what passes, in this order: magic, version, checksum, sizes, extents. After that
//     products of its numbers can't overflow, and every extent lies inside the file and has the length that kind, N and
//     shape call for.
// (2) Numbers are little endian and lie at fixed offsets, which no version changes.
// (3) What a shard holds is in the user block alone: HDF5's own structures are for other programs.
//
// Cost: one pread of 4 KiB opens a shard.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/data/shard_format.hpp>

namespace mn::data {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little endian and are read without conversion");

constexpr char kMagic[8] = {'M', 'N', 'S', 'H', 'A', 'R', 'D', '\n'};
constexpr std::size_t kMostDims = 8;
constexpr std::size_t kCrcAt = kUserBlockBytes - sizeof(std::uint32_t);
constexpr std::uint64_t kMostShardSamples = std::uint64_t{1} << 40;
constexpr std::int64_t kLeastBlockBytes = 64 << 10;
constexpr std::uint64_t kMostBlockElements = std::uint64_t{1} << 36;

struct StoredExtent {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t crc;
  std::uint32_t reserved;
};

/// The block as it lies in the file; zeros up to the checksum in its last four bytes.
struct Stored {
  char magic[8];
  std::uint32_t version;
  std::uint32_t kind;
  std::uint32_t dtype;
  std::uint32_t dims;
  std::int64_t shape[kMostDims];
  std::uint64_t num_samples;
  std::uint64_t file_bytes;
  std::byte uuid[16];
  StoredExtent sections[kSections];
  std::uint64_t block_samples;  // 0 in version 1
};
static_assert(offsetof(Stored, block_samples) == 24 + 8 * kMostDims + 32 + 24 * kSections);
// `dtype` holds DType's numbers, which no later version may give other meanings.
static_assert(static_cast<int>(DType::kUInt8) == 0 && static_cast<int>(DType::kInt32) == 1 &&
              static_cast<int>(DType::kInt64) == 2 && static_cast<int>(DType::kFloat32) == 5 &&
              static_cast<int>(DType::kFloat64) == 6);

[[noreturn]] void contradiction(const std::string& file, const std::string& what) {
  throw DataError(file + ": its header contradicts itself (" + what + "): make the shard again with mnshard");
}

/// Bytes that a section must have; 0 for those whose length is their own.
std::uint64_t wanted_bytes(const ShardHeader& header, Section section) {
  const std::uint64_t n = header.num_samples;
  const bool encoded = header.kind == SampleKind::kEncoded;
  switch (section) {
    case Section::kBytes:
      return encoded ? 0 : n * static_cast<std::uint64_t>(header.sample_bytes());
    case Section::kOffsets:
    case Section::kKeyOffsets:
      return encoded ? 8 * (n + 1) : 0;
    case Section::kLabel:
      return 4 * n;
    case Section::kCrc:
      return 4 * header.num_checksums();
    case Section::kHwc:
      return encoded ? 6 * n : 0;
    case Section::kKeyBytes:
      return 0;
  }
  return 0;
}

bool own_length(const ShardHeader& header, Section section) {
  return header.kind == SampleKind::kEncoded && (section == Section::kBytes || section == Section::kKeyBytes);
}

void check_extents(const ShardHeader& header, const std::string& file) {
  for (std::size_t i = 0; i < kSections; ++i) {
    const auto section = static_cast<Section>(i);
    const Extent& extent = header.sections[i];
    const std::string name = name_of(section, header.kind);
    if (!own_length(header, section) && extent.bytes != wanted_bytes(header, section)) {
      contradiction(file, name + " has " + std::to_string(extent.bytes) + " bytes");
    }
    const bool inside = extent.address <= header.file_bytes && extent.bytes <= header.file_bytes - extent.address;
    if (extent.bytes > 0 && (!inside || extent.address < kUserBlockBytes)) {
      contradiction(file, name + " lies outside the file");
    }
  }
}

/// Sizes that later products of them can't overflow.
void check_sizes(const Stored& stored, const std::string& file) {
  if (stored.kind > 1) contradiction(file, "kind " + std::to_string(stored.kind));
  if (stored.dtype > static_cast<std::uint32_t>(DType::kUInt64) || !can_store(static_cast<DType>(stored.dtype))) {
    contradiction(file, "dtype " + std::to_string(stored.dtype));
  }
  if (stored.dims > kMostDims) contradiction(file, std::to_string(stored.dims) + " dimensions");
  if (stored.num_samples > kMostShardSamples) contradiction(file, std::to_string(stored.num_samples) + " samples");
  std::uint64_t elements = 1;
  for (std::size_t d = 0; d < stored.dims; ++d) {
    const auto extent = static_cast<std::uint64_t>(stored.shape[d]);
    if (extent > kSampleBytesLimit) contradiction(file, "impossible shape");
    elements *= extent;
    if (elements > kSampleBytesLimit) contradiction(file, "impossible shape");
  }
  if (elements > 0 && stored.num_samples > (std::uint64_t{1} << 60) / (elements * 8))
    contradiction(file, "impossible size");
  const std::uint64_t block = stored.block_samples;
  if (stored.version > 1 && (block == 0 || block > kMostBlockElements / std::max(elements, std::uint64_t{1})))
    contradiction(file, "blocks of " + std::to_string(block) + " samples");
}

std::int64_t block_samples_of(const Stored& stored) {
  if (static_cast<SampleKind>(stored.kind) == SampleKind::kEncoded) return 1;
  return stored.version > 1 ? static_cast<std::int64_t>(stored.block_samples) : kVersion1BlockSamples;
}

}  // namespace

bool can_store(DType dtype) noexcept {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kFloat32:
    case DType::kFloat64:
      return true;
    default:
      return false;
  }
}

std::string to_string(const Uuid& uuid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[std::to_integer<int>(uuid[i] >> 4)];
    text += kDigits[std::to_integer<int>(uuid[i] & std::byte{15})];
  }
  return text;
}

const char* name_of(Section section, SampleKind kind) noexcept {
  switch (section) {
    case Section::kBytes:
      return kind == SampleKind::kFixed ? "/data/x" : "/data/bytes";
    case Section::kOffsets:
      return "/data/offsets";
    case Section::kLabel:
      return "/data/label";
    case Section::kCrc:
      return "/data/crc32c";
    case Section::kHwc:
      return "/data/hwc";
    case Section::kKeyBytes:
      return "/data/key_bytes";
    case Section::kKeyOffsets:
      return "/data/key_offsets";
  }
  return "?";
}

std::int64_t new_block_samples(const SampleSpec& spec) noexcept {
  if (spec.kind == SampleKind::kEncoded) return 1;
  const std::int64_t bytes = std::max<std::int64_t>(spec.sample_bytes(), 1);
  return (kLeastBlockBytes + bytes - 1) / bytes;
}

std::uint64_t ShardHeader::num_checksums() const noexcept {
  const auto block = static_cast<std::uint64_t>(block_samples);
  return num_samples / block + (num_samples % block == 0 ? 0 : 1);
}

std::int64_t ShardHeader::sample_bytes() const noexcept {
  return SampleSpec{.kind = kind, .dtype = dtype, .shape = shape, .num_classes = 0, .class_names = {}}.sample_bytes();
}

UserBlock encode_header(const ShardHeader& header) {
  if (header.shape.size() > kMostDims) throw ArgumentError("samples of a shard have at most 8 dimensions");
  Stored stored = {};
  std::memcpy(stored.magic, kMagic, sizeof kMagic);
  stored.version = header.version();
  stored.block_samples = header.version() == 1 ? 0 : static_cast<std::uint64_t>(header.block_samples);
  stored.kind = static_cast<std::uint32_t>(header.kind);
  stored.dtype = static_cast<std::uint32_t>(header.dtype);
  stored.dims = static_cast<std::uint32_t>(header.shape.size());
  std::copy(header.shape.begin(), header.shape.end(), stored.shape);
  stored.num_samples = header.num_samples;
  stored.file_bytes = header.file_bytes;
  std::copy(header.uuid.begin(), header.uuid.end(), stored.uuid);
  for (std::size_t i = 0; i < kSections; ++i) {
    stored.sections[i] = {header.sections[i].address, header.sections[i].bytes, header.sections[i].crc, 0};
  }
  UserBlock block = {};
  std::memcpy(block.data(), &stored, sizeof stored);
  const std::uint32_t crc = crc32c(std::span(block).first(kCrcAt));
  std::memcpy(block.data() + kCrcAt, &crc, sizeof crc);
  return block;
}

std::uint32_t header_crc(std::span<const std::byte, kUserBlockBytes> block) { return crc32c(block.first(kCrcAt)); }

ShardHeader decode_header(std::span<const std::byte, kUserBlockBytes> block, const std::string& file) {
  Stored stored;
  std::memcpy(&stored, block.data(), sizeof stored);
  if (std::memcmp(stored.magic, kMagic, sizeof kMagic) != 0) {
    throw DataError(file + " is not a shard: it does not begin with a shard's header (mnshard makes shards)");
  }
  if (stored.version < 1 || stored.version > kShardVersion) {
    throw DataError(file + " has version " + std::to_string(stored.version) +
                    " of the shard format, this program reads 1 to " + std::to_string(kShardVersion) +
                    ": make the shards again with this version's mnshard");
  }
  std::uint32_t crc = 0;
  std::memcpy(&crc, block.data() + kCrcAt, sizeof crc);
  if (crc != header_crc(block)) {
    throw DataError(file + ": the header is damaged (its checksum differs): copy the shard again or make it anew");
  }
  check_sizes(stored, file);

  ShardHeader header;
  header.kind = static_cast<SampleKind>(stored.kind);
  header.dtype = static_cast<DType>(stored.dtype);
  header.shape.assign(stored.shape, stored.shape + stored.dims);
  header.block_samples = block_samples_of(stored);
  header.num_samples = stored.num_samples;
  header.file_bytes = stored.file_bytes;
  std::copy(std::begin(stored.uuid), std::end(stored.uuid), header.uuid.begin());
  for (std::size_t i = 0; i < kSections; ++i) {
    header.sections[i] = {stored.sections[i].address, stored.sections[i].bytes, stored.sections[i].crc};
  }
  check_extents(header, file);
  return header;
}

}  // namespace mn::data
