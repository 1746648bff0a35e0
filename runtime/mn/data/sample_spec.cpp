// Decides which specs of samples are valid, and converts specs to JSON and back.
//
// (1) A spec from a file is used only after problem_of() has accepted it. Then products of its numbers cannot overflow,
//     and its names are valid names of HDF5 datasets.
#include <mn/data/sample_spec.hpp>

#include <algorithm>
#include <set>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/data/classes.hpp>

namespace mn {
namespace {

using nlohmann::json;

// Far below 2⁶³, so that products of a sample's size with other numbers do not overflow.
constexpr std::int64_t kMaxSampleBytes = std::int64_t{1} << 40;
constexpr std::size_t kMaxNameBytes = 64;
constexpr std::size_t kMaxFields = 64;
constexpr std::string_view kKindNames[] = {"fixed", "encoded", "variable"};

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

std::string problem_of_name(const std::string& name) {
  const bool good = !name.empty() && name.size() <= kMaxNameBytes && name.front() != '.' &&
                    std::all_of(name.begin(), name.end(), is_name_character);
  if (!good) {
    return "the field's name " + json_quoted(name) +
           " is not of 1 to 64 letters, digits, '_', '-' and '.', or begins with '.'";
  }
  for (const char* ending : {"_offsets", "_crc32c"}) {  // endings of the names of other datasets in a shard
    if (name.ends_with(ending)) return "the field's name " + name + " ends with " + ending;
  }
  return {};
}

std::string problem_of_shape(const FieldSpec& field) {
  auto bytes = static_cast<std::int64_t>(size_of(field.dtype));
  for (const std::int64_t extent : field.shape) {
    if (extent < 0) return "extent " + std::to_string(extent);
    // The limit is compared by division, because a product of extents might overflow.
    if (extent > 0 && bytes > kMaxSampleBytes / extent) return "more than 1 TiB each";
    bytes *= extent;
  }
  // The number of rows is the sample's bytes divided by the row's bytes, so a row must have bytes.
  if (field.kind == FieldKind::kVariable && bytes == 0) return "rows without elements";
  const bool is_bytes = field.dtype == DType::kUInt8 && field.shape.empty();
  return field.kind == FieldKind::kEncoded && !is_bytes ? "encoded, but not uint8 without a shape" : "";
}

std::string problem_of_classes(const FieldSpec& field) {
  if (field.num_classes < kCountClasses || field.num_classes > data::kMaxClasses)
    return std::to_string(field.num_classes) + " classes";
  const auto names = static_cast<std::int64_t>(field.class_names.size());
  if (names != 0 && names != field.num_classes) {
    return std::to_string(names) + " names for " + std::to_string(field.num_classes) + " classes";
  }
  const bool can_be = !is_float(field.dtype) && field.dtype != DType::kBool && field.kind != FieldKind::kEncoded;
  return field.num_classes != 0 && !can_be ? "classes that are not integers" : "";
}

json field_to_json(const FieldSpec& field) {
  json document = {{"name", field.name},
                   {"kind", kKindNames[static_cast<std::size_t>(field.kind)]},
                   {"dtype", name_of(field.dtype)},
                   {"shape", field.shape}};
  if (field.num_classes != 0) document["num_classes"] = field.num_classes;
  if (!field.class_names.empty()) document["class_names"] = field.class_names;
  return document;
}

[[noreturn]] void fail_spec(std::string_view what, const std::string& how) {
  throw DataError(std::string(what) + " describes impossible samples: " + how);
}

FieldSpec field_from_json(const json& document, std::string_view what) {
  FieldSpec field;
  document.at("name").get_to(field.name);
  const auto kind = std::ranges::find(kKindNames, document.at("kind").get<std::string>());
  if (kind == std::end(kKindNames)) fail_spec(what, "kind " + document.at("kind").dump());
  field.kind = static_cast<FieldKind>(kind - std::begin(kKindNames));
  const auto dtype = dtype_named(document.at("dtype").get<std::string>());
  if (!dtype) fail_spec(what, "dtype " + document.at("dtype").dump());
  field.dtype = *dtype;
  field.shape = whole_numbers<std::int64_t>(document.at("shape"));
  field.num_classes = whole_number<std::int64_t>(document.value("num_classes", nlohmann::json(0)));
  if (document.contains("class_names")) document.at("class_names").get_to(field.class_names);
  return field;
}

}  // namespace

std::int64_t FieldSpec::row_bytes() const noexcept {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : shape) bytes *= extent;
  return bytes;
}

std::int64_t FieldSpec::sample_bytes() const noexcept { return kind == FieldKind::kFixed ? row_bytes() : 0; }

const FieldSpec& SampleSpec::operator[](std::size_t position) const {
  if (position < fields.size()) return fields[position];
  throw ArgumentError("samples have " + std::to_string(fields.size()) + " fields, there is no number " +
                      std::to_string(position));
}

std::size_t SampleSpec::position(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &FieldSpec::name);
  if (found != fields.end()) return static_cast<std::size_t>(found - fields.begin());
  throw ArgumentError("samples have no field \"" + std::string(name) + "\", but " +
                      join(fields, ", ", &FieldSpec::name));
}

bool SampleSpec::is_fixed() const noexcept {
  return std::ranges::all_of(fields, [](const FieldSpec& field) { return field.kind == FieldKind::kFixed; });
}

std::int64_t SampleSpec::sample_bytes() const noexcept {
  std::int64_t bytes = 0;
  for (const FieldSpec& field : fields) bytes += field.sample_bytes();
  return bytes;
}

SampleSpec labeled(FieldSpec data, std::int64_t num_classes, std::vector<std::string> class_names) {
  if (data.name.empty()) data.name = data.kind == FieldKind::kEncoded ? "image" : "x";
  FieldSpec label{
      .name = "label", .dtype = DType::kInt64, .num_classes = num_classes, .class_names = std::move(class_names)};
  return {{std::move(data), std::move(label)}};
}

std::string problem_of(const SampleSpec& spec) {
  if (spec.fields.empty() || spec.fields.size() > kMaxFields) {
    return std::to_string(spec.fields.size()) + " fields, not 1 to " + std::to_string(kMaxFields);
  }
  std::set<std::string_view> names;
  for (const FieldSpec& field : spec.fields) {
    if (std::string problem = problem_of_name(field.name); !problem.empty()) return problem;
    if (!names.insert(field.name).second) return "two fields are called " + field.name;
    for (const auto& problem : {problem_of_shape(field), problem_of_classes(field)}) {
      if (!problem.empty()) return "field " + field.name + ": " + problem;
    }
  }
  return {};
}

json to_json(const SampleSpec& spec) {
  json fields = json::array();
  for (const FieldSpec& field : spec.fields) fields.push_back(field_to_json(field));
  return {{"fields", std::move(fields)}};
}

SampleSpec sample_spec_from_json(const json& document, std::string_view what) {
  SampleSpec spec = read_json(what, [&]() -> SampleSpec {
    SampleSpec read;
    for (const json& field : document.at("fields")) read.fields.push_back(field_from_json(field, what));
    return read;
  });
  if (const std::string problem = problem_of(spec); !problem.empty()) fail_spec(what, problem);
  // kCountClasses (−1): the classes were not counted yet.
  for (const FieldSpec& field : spec.fields) {
    if (field.num_classes < 0) fail_spec(what, "field " + field.name + ": classes that are not counted");
  }
  return spec;
}

}  // namespace mn
