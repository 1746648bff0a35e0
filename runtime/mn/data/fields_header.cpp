// The user block of versions 3 and 4: named fields.
//
//   [0, 64)              struct StoredFields: magic, version, counts, uuid, length of the description
//   [64, 88)             version 4: the extent of the table of blocks, zeros where there is none
//   [.., .. + 72 F)      for each field the extents of its values, offsets and checksums
//   [.., .. + bytes)     to_json() of the spec, without classes, as text
#include <algorithm>
#include <cstring>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/stored_header.hpp>

namespace mn::data {
namespace {

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

}  // namespace

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

}  // namespace mn::data
