/// Tensors between two ranks, with their dtype and shape.
#pragma once

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// To another rank, which receives it with recv_tensor(): dtype and shape travel along. Any strides; blocks as
/// Communicator::send() does. Throws ArgumentError for a dtype that communicators do not move.
void send_tensor(Communicator& comm, const at::Tensor& tensor, int dest, int tag = 0);
/// What `source` sent with send_tensor(), as a new contiguous tensor on the communicator's device.
[[nodiscard]] at::Tensor recv_tensor(Communicator& comm, int source, int tag = 0);
/// The same into a tensor that is there. Throws CommError that names both if dtype or shape is another.
void recv_tensor(Communicator& comm, const at::Tensor& into, int source, int tag = 0);

}  // namespace mn
