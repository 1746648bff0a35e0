#include <mn/core/buffer.hpp>

#include <algorithm>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
};
/// The rows have the order of the enumeration DType.
constexpr DTypeRow kDTypes[] = {{"uint8", 1},   {"int32", 4},   {"int64", 8}, {"float16", 2}, {"bfloat16", 2},
                                {"float32", 4}, {"float64", 8}, {"bool", 1},  {"int8", 1},    {"uint64", 8},
                                {"int16", 2},   {"uint16", 2},  {"uint32", 4}};
static_assert(std::size(kDTypes) == kDTypeCount);

}  // namespace

std::size_t size_of(DType dtype) noexcept { return kDTypes[static_cast<std::size_t>(dtype)].bytes; }

std::string_view name_of(DType dtype) noexcept { return kDTypes[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_named(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kDTypes, name, &DTypeRow::name);
  return found == std::end(kDTypes) ? std::nullopt : std::optional(static_cast<DType>(found - kDTypes));
}

std::string_view name_of(ReduceOp op) noexcept {
  constexpr std::string_view kNames[] = {"sum", "prod", "min", "max", "average"};
  return kNames[static_cast<std::size_t>(op)];
}

Device Device::parse(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "cuda") return {DeviceType::kCuda, 0};
  constexpr std::string_view kCuda = "cuda:";
  if (text.starts_with(kCuda)) {
    const auto index = parse_number<int>(text.substr(kCuda.size()));
    if (index && *index >= 0) return {DeviceType::kCuda, *index};
  }
  throw UsageError("unknown device \"" + std::string(text) + "\": use cpu, cuda or cuda:K (K = 0, 1, …)");
}

std::string Device::str() const { return type == DeviceType::kCpu ? "cpu" : "cuda:" + std::to_string(index); }

}  // namespace mn
