/// Calls of a Communicator on dense tensors, in the order of the current stream. If the communicator's device has its
/// own collectives (NCCL), calls on its tensors are enqueued, and the host does not wait. Otherwise calls block.
///
/// Arguments are as for the Communicator, and are not checked: contiguous tensors of dtypes that communicators move. A
/// collective call must be enqueued on all ranks or on none: give tensors of the device everywhere, or nowhere.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// False in debug mode, because debug mode reads the values.
[[nodiscard]] bool is_enqueued(Communicator& comm, const at::Tensor& tensor);

void ordered_bcast(Communicator& comm, const at::Tensor& tensor, int root);
void ordered_allgather(Communicator& comm, const at::Tensor& own, const at::Tensor& all);
void ordered_allreduce(Communicator& comm, const at::Tensor& tensor);
/// `sum` may be undefined on all ranks but the root.
void ordered_reduce(Communicator& comm, const at::Tensor& own, const at::Tensor& sum, int root);
void ordered_reduce_scatter(Communicator& comm, const at::Tensor& all, const at::Tensor& own);
/// Collective: sent[r] goes to rank r, and received[r] comes from rank r, in any forms. If a tensor is undefined, on
/// both ranks, it is not sent. Pass on all ranks `enqueued` = true if is_enqueued() holds for all tensors of all ranks.
void ordered_exchange(Communicator& comm, const std::vector<at::Tensor>& sent, const std::vector<at::Tensor>& received,
                      bool enqueued);
/// Messages between two ranks. Pass on both ranks `enqueued` = true if is_enqueued() holds for both tensors. Enqueued
/// messages between two ranks arrive in the order of the calls, whatever their tags.
/// @{
void ordered_send(Communicator& comm, const at::Tensor& tensor, int dest, int tag, bool enqueued);
void ordered_recv(Communicator& comm, const at::Tensor& tensor, int source, int tag, bool enqueued);
/// @}

}  // namespace mn
