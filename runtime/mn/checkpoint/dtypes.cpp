#include <mn/checkpoint/dtypes.hpp>

#include <utility>

#include <ATen/ops/view_as_real.h>

#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr std::pair<at::ScalarType, const char*> kDtypes[] = {{at::kDouble, "F64"},
                                                              {at::kFloat, "F32"},
                                                              {at::kHalf, "F16"},
                                                              {at::kBFloat16, "BF16"},
                                                              {at::kLong, "I64"},
                                                              {at::kInt, "I32"},
                                                              {at::kShort, "I16"},
                                                              {at::kChar, "I8"},
                                                              {at::kByte, "U8"},
                                                              {at::kBool, "BOOL"},
                                                              {at::kUInt64, "U64"},
                                                              {at::kUInt32, "U32"},
                                                              {at::kUInt16, "U16"},
                                                              {at::kFloat8_e4m3fn, "F8_E4M3"},
                                                              {at::kFloat8_e5m2, "F8_E5M2"},
                                                              {at::kComplexFloat, "C64"}};

}  // namespace

std::string safetensors_dtype(const std::string& tensor, at::ScalarType type) {
  for (const auto& [known, text] : kDtypes) {
    if (known == type) return text;
  }
  throw ArgumentError("tensor \"" + tensor + "\" of dtype " + toString(type) + " can't be saved as safetensors");
}

at::Tensor as_pairs(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.detach().resolve_conj()) : tensor;
}

at::ScalarType torch_dtype(const std::string& name) {
  for (const auto& [type, text] : kDtypes) {
    if (name == text) return type;
  }
  throw DataError("safetensors of dtype " + name + " can't be loaded");
}

}  // namespace mn
