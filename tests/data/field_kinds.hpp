/// Kinds of data, made by rule: a sample's values are a function of the sample's number.
#pragma once

#include <bit>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <mn/data/dataset.hpp>
#include <mn/data/function_dataset.hpp>
#include <mn/data/shard_writer.hpp>

namespace mn::test {

struct Kind {
  const char* name;
  SampleSpec spec;
};

inline constexpr std::int64_t kClasses = 5;

inline std::vector<Kind> all_kinds() {
  using enum FieldKind;
  const auto scalar = [](DType dtype) { return FieldSpec{.name = std::string(name_of(dtype)), .dtype = dtype}; };
  return {
      {"image and label", labeled({.kind = kEncoded}, kClasses)},
      {"regression",
       {{{.name = "x", .dtype = DType::kFloat32, .shape = {3}},
         {.name = "y", .dtype = DType::kFloat32, .shape = {2}}}}},
      {"tokens", {{{.name = "tokens", .kind = kVariable, .dtype = DType::kInt32}}}},
      {"image and boxes",
       {{{.name = "image", .kind = kEncoded},
         {.name = "boxes", .kind = kVariable, .dtype = DType::kFloat32, .shape = {4}},
         {.name = "class", .kind = kVariable, .dtype = DType::kInt16, .num_classes = kClasses}}}},
      {"many labels", {{{.name = "x", .shape = {4, 4}}, {.name = "labels", .shape = {6}, .num_classes = kClasses}}}},
      {"large fields",
       {{{.name = "x", .dtype = DType::kFloat32, .shape = {3, 64, 128}},
         {.name = "y", .dtype = DType::kFloat64, .shape = {64, 128}}}}},
      {"scalars",
       {{scalar(DType::kFloat32), scalar(DType::kFloat64), scalar(DType::kBool), scalar(DType::kInt16),
         scalar(DType::kInt8), scalar(DType::kUInt16), scalar(DType::kUInt32), scalar(DType::kUInt64),
         scalar(DType::kFloat16), scalar(DType::kBFloat16)}}},
  };
}

/// An element of that dtype: a number from 0 to 4, of a bool from 0 to 1.
inline void append_element(std::vector<std::byte>& bytes, DType dtype, std::int64_t number) {
  const auto append = [&](auto value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof value);
  };
  constexpr std::uint16_t kHalfs[] = {0, 0x3C00, 0x4000, 0x4200, 0x4400};
  const auto small = number % kClasses;
  switch (dtype) {
    case DType::kFloat32:
      return append(static_cast<float>(small));
    case DType::kFloat64:
      return append(static_cast<double>(small));
    case DType::kFloat16:
      return append(kHalfs[small]);
    case DType::kBFloat16:
      return append(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(small)) >> 16));
    case DType::kBool:
      return append(static_cast<std::uint8_t>(small % 2));
    case DType::kInt16:
    case DType::kUInt16:
      return append(static_cast<std::int16_t>(small));
    case DType::kInt32:
    case DType::kUInt32:
      return append(static_cast<std::int32_t>(small));
    case DType::kInt64:
    case DType::kUInt64:
      return append(small);
    case DType::kUInt8:
    case DType::kInt8:
      return append(static_cast<std::int8_t>(small));
  }
}

/// The bytes of a field of a sample. Samples of varying fields have 0 to 3 rows, of encoded fields 10 to 306 bytes.
inline std::vector<std::byte> field_bytes(const SampleSpec& spec, std::size_t field, std::int64_t sample) {
  const FieldSpec& f = spec[field];
  const auto number = static_cast<std::int64_t>(field);
  std::int64_t rows = 1;
  if (f.kind == FieldKind::kVariable) rows = (sample * 5 + 1) % 4;  // as many of each variable field
  if (f.kind == FieldKind::kEncoded) rows = 10 + sample * 13 % 297;
  const std::int64_t elements = rows * f.row_bytes() / static_cast<std::int64_t>(size_of(f.dtype));
  std::vector<std::byte> bytes;
  for (std::int64_t e = 0; e < elements; ++e) append_element(bytes, f.dtype, sample * 7 + number * 3 + e);
  return bytes;
}

/// use(the values of each field of a sample).
template <class Use>
void with_fields(const SampleSpec& spec, std::int64_t sample, const Use& use) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<ConstBufferView> views;
  for (std::size_t f = 0; f < spec.fields.size(); ++f) {
    bytes.push_back(field_bytes(spec, f, sample));
    views.emplace_back(bytes[f].data(), bytes[f].size() / size_of(spec[f].dtype), spec[f].dtype);
  }
  use(std::span<const ConstBufferView>(views));
}

inline void write_kind(const std::filesystem::path& folder, const SampleSpec& spec, std::int64_t samples,
                       std::int64_t shard_bytes) {
  ShardWriter writer(folder, spec, {.shard_bytes = shard_bytes});
  for (std::int64_t s = 0; s < samples; ++s) with_fields(spec, s, [&](const auto& fields) { writer.add(fields); });
  writer.finish();
}

/// The same by a function.
inline std::shared_ptr<Dataset> made_kind(const SampleSpec& spec, std::int64_t samples,
                                          const std::string& format = {}) {
  const auto make = [spec](std::int64_t sample, SampleWriter& writer) {
    with_fields(spec, sample, [&](const auto& fields) {
      for (std::size_t f = fields.size(); f-- > 0;) writer.set(f, fields[f]);  // in any order
    });
  };
  return make_dataset(samples, spec, make, format);
}

}  // namespace mn::test
