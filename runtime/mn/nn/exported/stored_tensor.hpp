/// Tensors of an exported program's archive.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include <mn/nn/exported/archive.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// The tensor on the CPU, with memory of its own. Throws DataError that begins with the archive's source and names the
/// tensor unless its record holds every element.
[[nodiscard]] at::Tensor read_tensor(const std::string& name, const StoredTensor& stored, const Archive& archive);

}  // namespace mn::exported
