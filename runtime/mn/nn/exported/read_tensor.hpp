/// Reads tensors from the archive of an exported program.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include <mn/nn/exported/archive.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Copies the tensor to the CPU. If the tensor's record does not hold every element, throws a DataError that begins
/// with the archive's source and names the tensor.
[[nodiscard]] at::Tensor read_tensor(const std::string& name, const StoredTensor& stored, const Archive& archive);

}  // namespace mn::exported
