// The user block of versions 1 and 2: data and an int32 label.
//
//   [0, 288)    struct StoredTwoFields: magic, version, kind, dtype, shape, counts, uuid, one extent for each section
//   [288, 296)  version 2: samples in a block
#include <algorithm>
#include <cstring>

#include <mn/core/error.hpp>
#include <mn/data/two_fields_header.hpp>

namespace mn::data {
namespace {

constexpr std::size_t kMaxStoredDims = 8;
constexpr std::size_t kSections = 7;

struct StoredTwoFields {
  StoredBegin begin;
  std::uint32_t kind;
  std::uint32_t dtype;
  std::uint32_t dims;
  std::int64_t shape[kMaxStoredDims];
  std::uint64_t num_samples;
  std::uint64_t file_bytes;
  std::byte uuid[16];
  StoredExtent sections[kSections];
  std::uint64_t block_samples;  // 0 in version 1
};
static_assert(offsetof(StoredTwoFields, block_samples) == 24 + 8 * kMaxStoredDims + 32 + 24 * kSections);
// `dtype` holds DType's numbers, which no later version may give other meanings.
static_assert(static_cast<int>(DType::kUInt8) == 0 && static_cast<int>(DType::kInt32) == 1 &&
              static_cast<int>(DType::kInt64) == 2 && static_cast<int>(DType::kFloat32) == 5 &&
              static_cast<int>(DType::kFloat64) == 6);

/// In the order of the user block's table.
std::array<Extent*, kSections> sections_of(ShardHeader& header) {
  FieldExtents& data = header.fields[0];
  ImageExtents& images = header.images;
  return {&data.values, &data.offsets,     &header.fields[1].values, &data.checksums,
          &images.hwc,  &images.key_bytes, &images.key_offsets};
}

FieldSpec data_of(const StoredTwoFields& stored, const std::string& file) {
  FieldSpec data;
  if (stored.kind > 1) contradiction(file, "kind " + std::to_string(stored.kind));
  data.kind = static_cast<FieldKind>(stored.kind);
  constexpr DType kDTypes[] = {DType::kUInt8, DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64};
  const auto dtype = std::ranges::find(kDTypes, static_cast<std::uint32_t>(stored.dtype),
                                       [](DType each) { return static_cast<std::uint32_t>(each); });
  if (dtype == std::end(kDTypes)) contradiction(file, "dtype " + std::to_string(stored.dtype));
  data.dtype = *dtype;
  if (stored.dims > kMaxStoredDims) contradiction(file, std::to_string(stored.dims) + " dimensions");
  std::uint64_t elements = 1;
  for (std::size_t d = 0; d < stored.dims; ++d) {
    const auto extent = static_cast<std::uint64_t>(stored.shape[d]);
    if (extent > kSampleBytesLimit || elements * extent > kSampleBytesLimit) contradiction(file, "impossible shape");
    elements *= extent;
    data.shape.push_back(stored.shape[d]);
  }
  return data;
}

std::int64_t block_samples_of(const StoredTwoFields& stored) {
  if (static_cast<FieldKind>(stored.kind) == FieldKind::kEncoded) return 1;
  return stored.begin.version > 1 ? static_cast<std::int64_t>(stored.block_samples) : kVersion1BlockSamples;
}

}  // namespace

void contradiction(const std::string& file, const std::string& what) {
  throw DataError(file + ": its header contradicts itself (" + what + "): make the shard again with mnshard");
}

void encode_two_fields(const ShardHeader& header, UserBlock& block) {
  const FieldSpec& data = header.spec.fields[0];
  ShardHeader extents = header;
  StoredTwoFields stored = {};
  stored.block_samples = header.version() == 1 ? 0 : static_cast<std::uint64_t>(header.form.block_samples);
  stored.kind = static_cast<std::uint32_t>(data.kind);
  stored.dtype = static_cast<std::uint32_t>(data.dtype);
  stored.dims = static_cast<std::uint32_t>(data.shape.size());
  std::copy(data.shape.begin(), data.shape.end(), stored.shape);
  stored.num_samples = header.num_samples;
  stored.file_bytes = header.file_bytes;
  std::copy(header.uuid.begin(), header.uuid.end(), stored.uuid);
  const auto sections = sections_of(extents);
  for (std::size_t i = 0; i < kSections; ++i) stored.sections[i] = data::stored(*sections[i]);
  std::memcpy(block.data(), &stored, sizeof stored);
}

ShardHeader decode_two_fields(std::span<const std::byte, kUserBlockBytes> block, const std::string& file) {
  StoredTwoFields stored;
  std::memcpy(&stored, block.data(), sizeof stored);
  ShardHeader header;
  header.spec = labeled(data_of(stored, file), 0);
  if (header.spec[0].kind == FieldKind::kEncoded &&
      header.spec[0] != FieldSpec{.name = "image", .kind = FieldKind::kEncoded}) {
    contradiction(file, "encoded samples with a dtype or a shape");
  }
  header.form = {ShardSchema::kTwoFields, block_samples_of(stored)};
  header.num_samples = stored.num_samples;
  header.file_bytes = stored.file_bytes;
  std::copy(std::begin(stored.uuid), std::end(stored.uuid), header.uuid.begin());
  header.fields.resize(2);
  const auto sections = sections_of(header);
  for (std::size_t i = 0; i < kSections; ++i) *sections[i] = loaded(stored.sections[i]);
  return header;
}

}  // namespace mn::data
