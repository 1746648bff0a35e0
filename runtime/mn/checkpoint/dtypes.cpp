#include <utility>

#include <mn/checkpoint/dtypes.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr std::pair<at::ScalarType, const char*> kDtypes[] = {
    {at::kDouble, "F64"}, {at::kFloat, "F32"}, {at::kHalf, "F16"}, {at::kBFloat16, "BF16"}, {at::kLong, "I64"},
    {at::kInt, "I32"},    {at::kShort, "I16"}, {at::kChar, "I8"},  {at::kByte, "U8"},       {at::kBool, "BOOL"}};

}  // namespace

std::string safetensors_dtype(const std::string& tensor, at::ScalarType type) {
  for (const auto& [known, text] : kDtypes) {
    if (known == type) return text;
  }
  throw ArgumentError("tensor \"" + tensor + "\" of dtype " + toString(type) + " can't be saved as safetensors");
}

at::ScalarType torch_dtype(const std::string& name) {
  for (const auto& [type, text] : kDtypes) {
    if (name == text) return type;
  }
  throw DataError("safetensors of dtype " + name + " can't be loaded");
}

}  // namespace mn
