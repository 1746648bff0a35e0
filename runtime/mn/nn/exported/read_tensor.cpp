#include <mn/nn/exported/read_tensor.hpp>

#include <cstring>
#include <optional>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/nn/exported/enumerations.hpp>

namespace mn::exported {
namespace {

/// Returns the number of elements from the record's first to the tensor's last; 0 for an empty tensor. No value if
/// sizes or strides are invalid, if the tensor ends after the record's `available` elements, or if it has more than
/// `available` elements: a copy would take too much memory.
std::optional<std::int64_t> elements_needed(const StoredTensor& stored, std::int64_t available) {
  if (stored.sizes.size() != stored.strides.size() || stored.offset < 0) return std::nullopt;
  std::int64_t elements = 1, last = stored.offset, reach = 0;
  for (std::size_t i = 0; i < stored.sizes.size(); ++i) {
    if (stored.sizes[i] < 0 || stored.strides[i] < 0) return std::nullopt;
    if (__builtin_mul_overflow(elements, stored.sizes[i], &elements)) return std::nullopt;
    if (stored.sizes[i] == 0) continue;
    if (__builtin_mul_overflow(stored.sizes[i] - 1, stored.strides[i], &reach)) return std::nullopt;
    if (__builtin_add_overflow(last, reach, &last)) return std::nullopt;
  }
  if (elements == 0) return 0;
  if (elements > available || last >= available) return std::nullopt;
  return last + 1;
}

/// Returns the number of elements from the record's first to the tensor's last.
std::int64_t check_elements(const std::string& name, const StoredTensor& stored, const Archive& archive) {
  const std::string what = archive.source() + ": tensor " + json_quoted(name);
  try {
    const at::ScalarType dtype = scalar_type_of(stored.dtype);
    const std::uint64_t bytes = archive.record_bytes(stored.record);
    const auto needed = elements_needed(stored, static_cast<std::int64_t>(bytes / c10::elementSize(dtype)));
    if (needed) return *needed;
    throw DataError(what + " of dtype " + toString(dtype) + " has other elements than the " + std::to_string(bytes) +
                    " bytes of the record " + json_quoted(stored.record));
  } catch (const UnknownForm& unknown) {
    throw DataError(what + " has " + unknown.what());
  }
}

}  // namespace

void check_tensor(const std::string& name, const StoredTensor& stored, const Archive& archive) {
  static_cast<void>(check_elements(name, stored, archive));
}

at::Tensor read_tensor(const std::string& name, const StoredTensor& stored, const Archive& archive) {
  const std::int64_t needed = check_elements(name, stored, archive);
  const std::string bytes = archive.record(stored.record);
  at::Tensor tensor = empty_tensor(stored, c10::kCPU);
  if (needed == 0) return tensor;
  if (stored.offset == 0 && needed == tensor.numel() && tensor.strides() == at::IntArrayRef(stored.strides)) {
    std::memcpy(tensor.data_ptr(), bytes.data(), tensor.nbytes());
    return tensor;
  }
  const at::Tensor elements = at::empty({needed}, tensor.options());
  std::memcpy(elements.data_ptr(), bytes.data(), elements.nbytes());
  return tensor.copy_(elements.as_strided(stored.sizes, stored.strides, stored.offset));
}

at::Tensor empty_tensor(const StoredTensor& stored, c10::Device device) {
  const auto options = at::TensorOptions(scalar_type_of(stored.dtype));
  // empty_like() keeps the order of dimensions in memory, such as channels_last, and drops gaps.
  return at::empty_like(at::empty_strided(stored.sizes, stored.strides, options.device(at::kMeta)),
                        options.device(device));
}

}  // namespace mn::exported
