/// Tensors between ranks, with dtype and shape, which may differ from rank to rank.
///
/// A tensor travels as a document with dtype and shape, then its elements as one block.
/// (1) A tensor of a wrong dtype is rejected before its document leaves, so after a document the elements follow.
/// (2) A document that does not describe a tensor is an error with the sender's rank.
/// (3) Results never share memory with arguments, on the root either.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Sends a tensor of any strides to rank `dest`, which calls recv_tensor(). Blocks as Communicator::send() does. Throws
/// ArgumentError for a dtype that communicators do not move.
void send_tensor(Communicator& comm, const at::Tensor& tensor, int dest, int tag = 0);
/// Receives a tensor that `source` sent with send_tensor(), as a new contiguous tensor on the communicator's device.
[[nodiscard]] at::Tensor recv_tensor(Communicator& comm, int source, int tag = 0);
/// Receives a tensor that `source` sent with send_tensor() into `into`. Throws CommError if dtype or shape differ, with
/// both.
void recv_tensor(Communicator& comm, const at::Tensor& into, int source, int tag = 0);

// Collective. Results are new contiguous tensors on the communicator's device. Arguments may have any strides; an
// undefined tensor, or a dtype that communicators do not move, throws ArgumentError. Messages have the tag
// Communicator::kMaxTag.

/// The root's tensor; the tensors of other ranks are ignored.
[[nodiscard]] at::Tensor bcast_tensor(Communicator& comm, const at::Tensor& tensor, int root = 0);
/// On `root`, the tensors of all ranks, by rank; elsewhere empty.
[[nodiscard]] std::vector<at::Tensor> gather_tensors(Communicator& comm, const at::Tensor& tensor, int root = 0);
/// The tensors of all ranks, by rank.
[[nodiscard]] std::vector<at::Tensor> allgather_tensors(Communicator& comm, const at::Tensor& tensor);
/// Sends tensors[r] of the root to rank r; lists of other ranks are ignored. Throws ArgumentError on the root unless
/// the list has one tensor per rank.
[[nodiscard]] at::Tensor scatter_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors, int root = 0);
/// Sends tensors[r] to rank r; returns the tensors of all ranks for this rank, by rank. Throws ArgumentError unless the
/// list has one tensor per rank.
[[nodiscard]] std::vector<at::Tensor> alltoall_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors);

}  // namespace mn
