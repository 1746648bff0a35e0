#include <mn/loader/loader_options.hpp>

#include <algorithm>
#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <mn/core/error.hpp>
#include <mn/tensor/scalar_type.hpp>

namespace mn {
namespace {

/// Makes a tensor of one field of all samples.
at::Tensor tensor_of(const RawColumn& column, DType dtype, const std::vector<std::int64_t>& shape,
                     const at::TensorOptions& memory) {
  at::Tensor result = at::empty(shape, memory.dtype(scalar_type(dtype)));
  if (!column.bytes.empty()) std::memcpy(result.data_ptr(), column.bytes.data(), column.bytes.size());
  return result;
}

std::vector<std::int64_t> shape_of(const FieldSpec& field, std::int64_t first) {
  std::vector<std::int64_t> shape = {first};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  return shape;
}

}  // namespace

BatchField default_field(const RawBatch& batch, std::size_t position) {
  const FieldSpec& spec = batch.spec[position];
  const RawColumn& column = batch.samples.columns[position];
  if (spec.kind == FieldKind::kEncoded) {
    throw ArgumentError("field " + spec.name +
                        " is encoded: a transform that decodes it is needed (LoaderOptions::transform)");
  }
  const bool varies = spec.kind == FieldKind::kVariable;
  const std::int64_t row = spec.row_bytes();
  const std::int64_t first = varies ? std::ssize(column.bytes) / row : batch.samples.size();
  BatchField field{.name = spec.name, .values = tensor_of(column, spec.dtype, shape_of(spec, first), batch.memory)};
  if (spec.num_classes > 0) field.values = field.values.to(at::kLong);
  if (!varies) return field;
  field.offsets = at::tensor(column.offsets, batch.memory.dtype(at::kLong)).floor_divide_(row);
  if (batch.samples.size() > 0) field.longest = field.offsets.diff().max().item<std::int64_t>();
  return field;
}

at::Tensor default_transform(const RawBatch& batch, std::vector<SampleError>&) {
  const FieldSpec& spec = batch.spec[0];
  if (spec.kind != FieldKind::kFixed || spec.dtype != DType::kUInt8 || spec.num_classes > 0) {
    return default_field(batch, 0).values;
  }
  const RawColumn& column = batch.samples.columns[0];
  at::Tensor result = at::empty(shape_of(spec, batch.samples.size()), batch.memory.dtype(at::kFloat));
  float* out = result.data_ptr<float>();
  const auto* in = reinterpret_cast<const std::uint8_t*>(column.bytes.data());
  const std::size_t n = column.bytes.size();
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]) / 255.0f;
  return result;
}

Transformed default_fields(const RawBatch& batch, std::vector<SampleError>& damaged) {
  if (batch.spec[0].kind == FieldKind::kFixed) return default_transform(batch, damaged);
  std::vector<BatchField> fields;
  for (std::size_t f = 0; f < batch.spec.fields.size(); ++f) fields.push_back(default_field(batch, f));
  return fields;
}

}  // namespace mn
