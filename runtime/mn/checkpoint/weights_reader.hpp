/// Reads weights tensor by tensor, so that memory holds one tensor at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include <mn/checkpoint/file_layout.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

/// Weights in files, or in a checkpoint. No call is collective.
struct WeightsReader {
  /// Names, dtypes, shapes and strides of the tensors, and of averages of the tensors in a checkpoint. All of them are
  /// without memory (device at::kMeta).
  NamedTensors tensors = {}, averages = {};
  /// Reads the bytes of tensor i, where tensor tensors.size() + j is averages[j]. Throws DataError.
  std::function<void(std::size_t i, std::span<std::byte> out)> read_bytes = {};

  /// Returns tensor i, with its values, on the CPU. Throws DataError.
  [[nodiscard]] at::Tensor read(std::size_t i) const;
};

/// Gives the tensors the module's names, removes those that `layout` ignores, and gives the module's shape to matrices
/// that files hold transposed and to tensors that the module has in one dimension.
void arrange(WeightsReader& reader, const FileLayout& layout);

}  // namespace mn
