#include <functional>
#include <numeric>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/sample_spec.hpp>

namespace mn {
namespace {

constexpr std::int64_t kMostSampleBytes = std::int64_t{1} << 40;  // later products of it can't overflow

[[noreturn]] void fail_spec(std::string_view what, const std::string& how) {
  throw DataError(std::string(what) + " describes impossible samples: " + how);
}

/// A number of an enum class whose last value is `last`.
template <class Enum>
Enum enum_from(const nlohmann::json& document, const char* key, Enum last, std::string_view what) {
  const auto number = document.at(key).get<std::int64_t>();
  if (number < 0 || number > static_cast<std::int64_t>(last)) {
    fail_spec(what, std::string(key) + " " + std::to_string(number));
  }
  return static_cast<Enum>(number);
}

void check_shape(const SampleSpec& spec, std::string_view what) {
  auto bytes = static_cast<std::int64_t>(size_of(spec.dtype));
  for (const std::int64_t extent : spec.shape) {
    if (extent < 0) fail_spec(what, "extent " + std::to_string(extent));
    if (extent > 0 && bytes > kMostSampleBytes / extent) fail_spec(what, "more than 1 TiB each");
    bytes *= extent;
  }
}

void check_classes(const SampleSpec& spec, std::string_view what) {
  if (spec.num_classes < 0) fail_spec(what, std::to_string(spec.num_classes) + " classes");
  const auto names = static_cast<std::int64_t>(spec.class_names.size());
  if (names != 0 && names != spec.num_classes) {
    fail_spec(what, std::to_string(names) + " names for " + std::to_string(spec.num_classes) + " classes");
  }
}

}  // namespace

std::int64_t SampleSpec::sample_bytes() const noexcept {
  if (kind == SampleKind::kEncoded) return 0;
  return std::accumulate(shape.begin(), shape.end(), static_cast<std::int64_t>(size_of(dtype)), std::multiplies<>());
}

nlohmann::json to_json(const SampleSpec& spec) {
  return {{"kind", static_cast<int>(spec.kind)},
          {"dtype", static_cast<int>(spec.dtype)},
          {"shape", spec.shape},
          {"num_classes", spec.num_classes},
          {"class_names", spec.class_names}};
}

SampleSpec sample_spec_from_json(const nlohmann::json& document, std::string_view what) {
  SampleSpec spec;
  read_json(what, [&] {
    spec.kind = enum_from(document, "kind", SampleKind::kEncoded, what);
    spec.dtype = enum_from(document, "dtype", DType::kUInt64, what);
    document.at("shape").get_to(spec.shape);
    document.at("num_classes").get_to(spec.num_classes);
    document.at("class_names").get_to(spec.class_names);
  });
  check_shape(spec, what);
  check_classes(spec, what);
  return spec;
}

}  // namespace mn
