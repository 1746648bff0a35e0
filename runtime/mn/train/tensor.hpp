/// Tensors as buffers: lets every call of a Communicator take an at::Tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <mn/comm/buffer.hpp>

namespace mn {

/// The tensor's memory. Throws ArgumentError if it is not contiguous or of a dtype that communicators don't move.
[[nodiscard]] BufferView buffer_view(const at::Tensor& tensor);

template <>
struct BufferTraits<at::Tensor> {
  static BufferView view(const at::Tensor& tensor) { return buffer_view(tensor); }
};

}  // namespace mn
