#include <mn/core/buffer.hpp>

#include <charconv>

#include <mn/core/error.hpp>

namespace mn {
namespace {

/// Indexed by DType.
constexpr std::string_view kDTypeNames[] = {"uint8",   "int32", "int64", "float16", "bfloat16", "float32",
                                            "float64", "bool",  "int8",  "uint64",  "int16"};

}  // namespace

std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
      return 1;
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kUInt64:
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

std::string_view name_of(DType dtype) noexcept { return kDTypeNames[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(kDTypeNames); ++i) {
    if (kDTypeNames[i] == name) return static_cast<DType>(i);
  }
  return {};
}

std::string_view name_of(ReduceOp op) noexcept {
  constexpr std::string_view kNames[] = {"sum", "prod", "min", "max", "average"};
  return kNames[static_cast<std::size_t>(op)];
}

Device Device::parse(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "cuda") return {DeviceType::kCuda, 0};
  constexpr std::string_view kCuda = "cuda:";
  if (text.starts_with(kCuda) && text.size() > kCuda.size()) {
    const std::string_view digits = text.substr(kCuda.size());
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0) return {DeviceType::kCuda, index};
  }
  throw UsageError("unknown device \"" + std::string(text) + "\": use cpu, cuda or cuda:K (K = 0, 1, …)");
}

std::string Device::str() const { return type == DeviceType::kCpu ? "cpu" : "cuda:" + std::to_string(index); }

}  // namespace mn
