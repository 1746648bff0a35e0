#include <cstring>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <mn/core/error.hpp>
#include <mn/data/loader.hpp>

namespace mn {
namespace {

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return at::kBool;
    case DType::kUInt8:
      return at::kByte;
    case DType::kInt8:
      return at::kChar;
    case DType::kInt32:
      return at::kInt;
    case DType::kInt64:
      return at::kLong;
    case DType::kUInt64:
      return at::kUInt64;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
  }
  throw ArgumentError("a tensor of an unknown dtype");
}

}  // namespace

at::Tensor default_transform(const RawBatch& batch, std::vector<SampleError>&) {
  if (batch.spec.kind == SampleKind::kEncoded) {
    throw ArgumentError("encoded samples need a transform that decodes them: set LoaderOptions::transform");
  }
  std::vector<std::int64_t> shape = {batch.samples.size()};
  shape.insert(shape.end(), batch.spec.shape.begin(), batch.spec.shape.end());
  const std::size_t n = batch.samples.bytes.size();
  if (batch.spec.dtype != DType::kUInt8) {
    at::Tensor result = at::empty(shape, batch.memory.dtype(scalar_type(batch.spec.dtype)));
    if (n > 0) std::memcpy(result.data_ptr(), batch.samples.bytes.data(), n);
    return result;
  }
  at::Tensor result = at::empty(shape, batch.memory.dtype(at::kFloat));
  float* out = result.data_ptr<float>();
  const auto* in = reinterpret_cast<const std::uint8_t*>(batch.samples.bytes.data());
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]) / 255.0f;
  return result;
}

}  // namespace mn
