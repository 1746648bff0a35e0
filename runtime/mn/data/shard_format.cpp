#include <mn/data/shard_format.hpp>

#include <algorithm>

#include <mn/core/text.hpp>

namespace mn::data {
namespace {

constexpr std::int64_t kSmallBlockBytes = 1024;
constexpr std::size_t kMaxDims = 8;

}  // namespace

bool is_labeled(const SampleSpec& spec) {
  if (spec.fields.size() != 2 || spec.num_classes() == 0) return false;
  const FieldSpec& x = spec.fields[0];
  return x.kind != FieldKind::kVariable && x.num_classes == 0 &&
         spec == labeled({.kind = x.kind, .dtype = x.dtype, .shape = x.shape}, spec.num_classes(),
                         spec.fields[1].class_names);
}

bool are_images(const SampleSpec& spec) { return is_labeled(spec) && spec.fields[0].kind == FieldKind::kEncoded; }

std::int64_t default_block_samples(const SampleSpec& spec, std::int64_t varying_bytes) {
  if (are_images(spec)) return 1;
  const std::int64_t bytes = std::max<std::int64_t>(spec.sample_bytes() + varying_bytes, 1);
  return (kBlockBytes + bytes - 1) / bytes;
}

std::string storage_problem(const SampleSpec& spec) {
  if (std::string problem = problem_of(spec); !problem.empty()) return problem;
  for (const FieldSpec& field : spec.fields) {
    if (static_cast<std::uint64_t>(field.row_bytes()) > kSampleBytesLimit) return "more than 1 GiB in a sample";
    if (field.shape.size() > kMaxDims) return "more than 8 dimensions in a sample";
    if (field.row_bytes() == 0) return "field " + field.name + " has no elements";
  }
  return {};
}

bool is_small(const SampleSpec& spec, std::size_t field, std::int64_t block_samples) noexcept {
  return spec.fields[field].kind == FieldKind::kFixed &&
         spec.fields[field].sample_bytes() < kSmallBlockBytes / block_samples;
}

bool has_block_table(const SampleSpec& spec, std::int64_t block_samples) noexcept {
  return block_samples > 1 && !spec.is_fixed();
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

std::uint64_t ShardHeader::num_blocks() const noexcept {
  if (block_begins.bytes > 0) return block_begins.bytes / sizeof(std::uint64_t) - 1;
  const auto block = static_cast<std::uint64_t>(block_samples);
  return num_samples / block + (num_samples % block == 0 ? 0 : 1);
}

std::vector<NamedExtent> parts_of(ShardHeader& header) {
  const std::uint64_t n = header.num_samples;
  const std::uint64_t offsets = 8 * (n + 1);
  const auto path = [&](std::size_t f) { return "/data/" + header.spec.fields[f].name; };
  const auto is_fixed = [&](std::size_t f) { return header.spec.fields[f].kind == FieldKind::kFixed; };
  std::vector<NamedExtent> parts;
  for (std::size_t f = 0; f < header.fields.size(); ++f) {
    const auto row = static_cast<std::uint64_t>(header.spec.fields[f].row_bytes());
    parts.push_back(
        {path(f), &header.fields[f].values, is_fixed(f) ? n * row : 0, is_fixed(f) ? 0 : row, !header.is_small(f)});
  }
  for (std::size_t f = 0; f < header.fields.size(); ++f) {
    if (header.is_small(f)) continue;
    parts.push_back({path(f) + "_crc32c", &header.fields[f].checksums, 4 * header.num_blocks(), 0});
  }
  for (std::size_t f = 0; f < header.fields.size(); ++f) {
    if (is_fixed(f)) continue;
    parts.push_back({path(f) + "_offsets", &header.fields[f].offsets, offsets, 0});
  }
  if (header.block_begins.bytes > 0) parts.push_back({"/block_begins", &header.block_begins, 0, 8});
  if (!header.has_images) return parts;
  parts.push_back({"/data/hwc", &header.images.hwc, 6 * n, 0});
  parts.push_back({"/data/key_bytes", &header.images.key_bytes, 0, 1});
  parts.push_back({"/data/key_offsets", &header.images.key_offsets, offsets, 0});
  return parts;
}

}  // namespace mn::data
