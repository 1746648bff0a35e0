/// Sends tensors between ranks. Dtype and shape travel with the elements, and may differ from rank to rank.
///
/// A tensor travels as its form (20 integers that describe dtype and shape), followed by its elements. Forms always
/// travel by MPI. If the device has its own collectives (NCCL), they carry the elements, in the order of the current
/// stream, and the host waits for forms only.
/// (1) A tensor of a wrong dtype is rejected before its form is sent; therefore elements follow every form.
/// (2) If a form does not describe a tensor, the receiver throws an error with the sender's rank.
/// (3) Results never share memory with arguments, not even on the root.
/// (4) The device's collectives know no tags. Therefore elements of messages with a tag other than 0 travel by MPI.
/// Elements are numbered: a receiver that would take those of a wrong message throws CommError.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Sends a tensor of any strides to rank `dest`, which calls recv_tensor(). The host waits as in Communicator::send();
/// if NCCL sends the elements, the current stream waits for the receiver instead. Therefore, if two ranks send to each
/// other, one of them must receive first. Throws ArgumentError for a dtype that communicators do not move, and for more
/// than 16 dimensions.
void send_tensor(Communicator& comm, const at::Tensor& tensor, int dest, int tag = 0);
/// Receives a tensor that `source` sent by send_tensor(). Returns it as a new contiguous tensor on the communicator's
/// device.
[[nodiscard]] at::Tensor recv_tensor(Communicator& comm, int source, int tag = 0);
/// Receives a tensor that rank `source` sent by send_tensor(), and writes its elements to the tensor `into`. If the
/// dtypes or shapes of the two tensors differ, throws a CommError that names both.
void recv_tensor(Communicator& comm, const at::Tensor& into, int source, int tag = 0);

// The next functions are collective. Results are new contiguous tensors on the communicator's device. Arguments may
// have any strides. An undefined tensor, or a dtype that communicators do not send, throws ArgumentError. The messages
// have the tag Communicator::kMaxTag.

/// Returns the root's tensor on every rank. The arguments of other ranks are ignored.
[[nodiscard]] at::Tensor bcast_tensor(Communicator& comm, const at::Tensor& tensor, int root = 0);
/// On `root`, returns the tensors of all ranks in rank order. On other ranks the result is empty.
[[nodiscard]] std::vector<at::Tensor> gather_tensors(Communicator& comm, const at::Tensor& tensor, int root = 0);
/// Returns the tensors of all ranks in rank order.
[[nodiscard]] std::vector<at::Tensor> allgather_tensors(Communicator& comm, const at::Tensor& tensor);
/// Returns on rank r the tensor tensors[r] of the root. The lists of all ranks except the root are ignored. Throws
/// ArgumentError on the root unless its list has one tensor for each rank.
[[nodiscard]] at::Tensor scatter_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors, int root = 0);
/// Sends tensors[r] to rank r. Returns the tensors that all ranks have sent to the calling rank, in rank order. Throws
/// ArgumentError unless `tensors` has one tensor for each rank.
[[nodiscard]] std::vector<at::Tensor> alltoall_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors);

}  // namespace mn
