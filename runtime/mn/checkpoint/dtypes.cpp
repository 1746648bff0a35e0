#include <mn/checkpoint/dtypes.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

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

bool has_torch_dtype(const std::string& name) noexcept {
  return std::ranges::any_of(kDtypes, [&](const auto& known) { return name == known.second; });
}

at::ScalarType torch_dtype(const std::string& name) {
  for (const auto& [type, text] : kDtypes) {
    if (name == text) return type;
  }
  throw DataError("safetensors of dtype " + name + " can't be loaded");
}

at::Tensor form_of_stored(const std::string& dtype, std::vector<std::int64_t> shape, bool is_complex) {
  at::ScalarType type = torch_dtype(dtype);
  if (is_complex) {
    type = c10::toComplexType(type);
    shape.pop_back();
  }
  return at::empty(shape, at::device(at::kMeta).dtype(type));
}

at::Tensor to_tensor(const SafetensorsEntry& entry, const std::string& source) {
  if (!has_torch_dtype(entry.dtype)) {
    throw DataError(source + " holds tensor " + json_quoted(entry.name) + " of an unknown dtype " +
                    json_quoted(entry.dtype));
  }
  at::Tensor tensor = at::empty(entry.shape, torch_dtype(entry.dtype));
  if (!entry.bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), entry.bytes.data(), entry.bytes.size());
  return entry.is_complex ? at::view_as_complex(tensor) : tensor;
}

}  // namespace mn
