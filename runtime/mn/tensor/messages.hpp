/// Tensors between ranks, with their dtype and shape: each rank may have another.
#pragma once

#include <vector>

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

// Collective. Results are new contiguous tensors on the communicator's device; tensors that are given may have any
// strides, must be defined, and throw ArgumentError if their dtype is one that communicators do not move. Messages have
// the tag Communicator::kMaxTag.

/// The root's tensor; what others give is ignored.
[[nodiscard]] at::Tensor bcast_tensor(Communicator& comm, const at::Tensor& tensor, int root = 0);
/// On `root` the tensors of all ranks, by rank; elsewhere none.
[[nodiscard]] std::vector<at::Tensor> gather_tensors(Communicator& comm, const at::Tensor& tensor, int root = 0);
/// The tensors of all ranks, by rank.
[[nodiscard]] std::vector<at::Tensor> allgather_tensors(Communicator& comm, const at::Tensor& tensor);
/// The tensor that the root's list, of one for each rank, has for this one; what others give is ignored. Throws
/// ArgumentError on the root if the list has another length.
[[nodiscard]] at::Tensor scatter_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors, int root = 0);
/// tensors[r] goes to rank r; returns what each rank had for this one. Throws ArgumentError for another length.
[[nodiscard]] std::vector<at::Tensor> alltoall_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors);

}  // namespace mn
