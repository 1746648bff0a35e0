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
#include <mn/core/text.hpp>
#include <mn/data/stored_header.hpp>

namespace mn::data {
namespace {

constexpr char kMagic[8] = {'M', 'N', 'S', 'H', 'A', 'R', 'D', '\n'};
constexpr std::uint64_t kMostShardSamples = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostBlockBytes = std::uint64_t{1} << 39;
constexpr std::int64_t kSmallBlockBytes = 1024;
constexpr std::size_t kMostDims = 8;
constexpr std::int64_t kMostClassesOfTwoFields = std::int64_t{1} << 31;  // labels are int32

bool can_store_two_fields(DType dtype) noexcept {
  return dtype == DType::kUInt8 || dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

/// Data of the usual name and a class label.
bool has_two_fields(const SampleSpec& spec) {
  if (spec.fields.size() != 2) return false;
  const FieldSpec& x = spec.fields[0];
  const std::int64_t classes = spec.num_classes();
  return x.kind != FieldKind::kVariable && x.num_classes == 0 && can_store_two_fields(x.dtype) &&
         x.shape.size() <= kMostDims && classes != 0 && classes <= kMostClassesOfTwoFields &&
         spec == labeled({.kind = x.kind, .dtype = x.dtype, .shape = x.shape}, classes, spec.fields[1].class_names);
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

}  // namespace

void contradiction(const std::string& file, const std::string& what) {
  throw DataError(file + ": its header contradicts itself (" + what + "): make the shard again with mnshard");
}

ShardForm new_form(const SampleSpec& spec, std::int64_t varying_bytes) {
  const bool two = has_two_fields(spec);
  if (two && !spec.is_fixed()) return {ShardSchema::kTwoFields, 1};
  const std::int64_t label = two ? spec.fields[1].sample_bytes() : 0;
  const std::int64_t bytes = std::max<std::int64_t>(spec.sample_bytes() - label + varying_bytes, 1);
  return {two ? ShardSchema::kTwoFields : ShardSchema::kFields, (kBlockBytes + bytes - 1) / bytes};
}

std::string storage_problem(const SampleSpec& spec) {
  if (std::string problem = problem_of(spec); !problem.empty()) return problem;
  for (const FieldSpec& field : spec.fields) {
    if (static_cast<std::uint64_t>(field.row_bytes()) > kSampleBytesLimit) return "more than 1 GiB in a sample";
    if (field.shape.size() > kMostDims) return "more than 8 dimensions in a sample";
    if (field.row_bytes() == 0 && !has_two_fields(spec)) return "field " + field.name + " has no elements";
  }
  return {};
}

bool is_small(const SampleSpec& spec, std::size_t field, const ShardForm& form) noexcept {
  if (form.schema == ShardSchema::kTwoFields) return field == 1;
  return spec.fields[field].kind == FieldKind::kFixed &&
         spec.fields[field].sample_bytes() < kSmallBlockBytes / form.block_samples;
}

bool has_block_table(const SampleSpec& spec, const ShardForm& form) noexcept {
  return form.schema == ShardSchema::kFields && form.block_samples > 1 && !spec.is_fixed();
}

std::int64_t stored_bytes(const SampleSpec& spec, std::size_t field, ShardSchema schema) noexcept {
  const bool is_label = schema == ShardSchema::kTwoFields && field == 1;
  return is_label ? static_cast<std::int64_t>(sizeof(std::int32_t)) : spec.fields[field].sample_bytes();
}

SampleSpec without_classes(SampleSpec spec) {
  for (FieldSpec& field : spec.fields) {
    field.num_classes = 0;
    field.class_names.clear();
  }
  return spec;
}

std::string to_string(const Uuid& uuid) {
  std::string text = to_hex(uuid);
  for (const std::size_t offset : {20, 16, 12, 8}) text.insert(offset, 1, '-');
  return text;
}

std::uint32_t ShardHeader::version() const noexcept {
  if (form.schema == ShardSchema::kFields) return kShardVersion;
  return spec.fields[0].kind == FieldKind::kEncoded ? 1 : kTwoFieldsVersion;
}

std::uint64_t ShardHeader::num_blocks() const noexcept {
  if (block_begins.bytes > 0) return block_begins.bytes / sizeof(std::uint64_t) - 1;
  const auto block = static_cast<std::uint64_t>(form.block_samples);
  return num_samples / block + (num_samples % block == 0 ? 0 : 1);
}

void check_counts(const ShardHeader& header, const std::string& file) {
  if (header.num_samples > kMostShardSamples) {
    contradiction(file, std::to_string(header.num_samples) + " samples");
  }
  const auto block = static_cast<std::uint64_t>(header.form.block_samples);
  for (const FieldSpec& field : header.spec.fields) {
    const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(field.sample_bytes(), 1));
    if (header.num_samples > (std::uint64_t{1} << 60) / bytes) contradiction(file, "impossible size");
    if (block == 0 || block > kMostBlockBytes / bytes) {
      contradiction(file, "blocks of " + std::to_string(block) + " samples");
    }
  }
}

std::vector<NamedExtent> parts_of(ShardHeader& header) {
  const std::uint64_t n = header.num_samples;
  const std::uint64_t offsets = 8 * (n + 1);
  const bool two = header.form.schema == ShardSchema::kTwoFields;
  const auto path = [&](std::size_t f) { return "/data/" + header.spec.fields[f].name; };
  const auto is_fixed = [&](std::size_t f) { return header.spec.fields[f].kind == FieldKind::kFixed; };
  std::vector<NamedExtent> parts;
  for (std::size_t f = 0; f < header.fields.size(); ++f) {
    const auto row = static_cast<std::uint64_t>(header.spec.fields[f].row_bytes());
    const auto bytes = static_cast<std::uint64_t>(stored_bytes(header.spec, f, header.form.schema));
    const bool images = two && !is_fixed(f);
    parts.push_back({images ? "/data/bytes" : path(f), &header.fields[f].values, is_fixed(f) ? n * bytes : 0,
                     is_fixed(f) ? 0 : row, !header.is_small(f)});
  }
  for (std::size_t f = 0; f < header.fields.size(); ++f) {
    if (header.is_small(f)) continue;
    const std::string name = two ? "/data/crc32c" : path(f) + "_crc32c";
    parts.push_back({name, &header.fields[f].checksums, 4 * header.num_blocks(), 0});
  }
  for (std::size_t f = 0; f < header.fields.size(); ++f) {
    if (is_fixed(f)) continue;
    parts.push_back({two ? "/data/offsets" : path(f) + "_offsets", &header.fields[f].offsets, offsets, 0});
  }
  if (header.block_begins.bytes > 0) parts.push_back({"/block_begins", &header.block_begins, 0, 8});
  if (!header.has_images()) return parts;
  parts.push_back({"/data/hwc", &header.images.hwc, 6 * n, 0});
  parts.push_back({"/data/key_bytes", &header.images.key_bytes, 0, 1});
  parts.push_back({"/data/key_offsets", &header.images.key_offsets, offsets, 0});
  return parts;
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
