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
/// Throws the errors of read_tensor(), except for a wrong checksum. Does not read the record.
void check_tensor(const std::string& name, const StoredTensor& stored, const Archive& archive);
/// Returns a tensor as read_tensor() does, without values, on `device`. Requires that check_tensor() does not throw.
[[nodiscard]] at::Tensor empty_tensor(const StoredTensor& stored, c10::Device device);

}  // namespace mn::exported
