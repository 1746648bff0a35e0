/// Differentiable collective calls, as in torch.distributed.nn.functional and chainermn.functions.
///
/// Each call is collective, and so is the call's backward, which sends gradients in the opposite direction. All ranks
/// must make the same calls in the same order, and a result must be part of the loss on every rank or on none. Parts
/// may be empty. In all_gather() and reduce_scatter() they may differ in their first dimension, in allgather(),
/// alltoall(), gather() and scatter() in shape and dtype. Results are new tensors on the communicator's device. If
/// shapes or dtypes do not match, all ranks throw the same ArgumentError.
///
/// Delegates. gather() and reduce() have a result on the root. All other ranks get a delegate, the number 0. It stands
/// for the result: its backward takes part in the call's backward, and returns the gradient of the rank's tensor. A
/// rank without a loss calls backward() of the delegate, or passes it to scale_loss(); a rank with a loss of its own
/// connects the two by pseudo_connect() (<mn/nn/point_to_point.hpp>).
///
/// Gradients can be differentiated again (create_graph), if all ranks do it; but not those of broadcast() and
/// scatter(), in which only the root has an input.
///
/// Weights. The ranks minimize Σ wᵣ Lᵣ / Σ wᵣ, where rank r's loss Lᵣ is a mean over wᵣ samples, the number passed to
/// optimizer->step(samples). A gradient that comes from rank s must have the factor wₛ. Therefore each rank multiplies
/// its loss by its weight before backward, and gradients add up over ranks without further factors:
///
///   a Trainer                              multiplies the losses
///   a loop, ranks with equal samples       loss.backward(); optimizer->step();
///   a loop, any samples                    optimizer->scale_loss(loss, samples).backward(); optimizer->step(samples);
///
/// step(samples) throws ArgumentError if the ranks' weights differ and a loss was not multiplied.
///
/// Cost: an allgather of 24 bytes between the hosts, and an allgather of the shapes if they are new; a later pass of
/// FixedForms has neither. Then one call of the communicator. On GPUs with NCCL the call is enqueued on the current
/// stream, and the host does not wait. Parts of different lengths are padded to the length of the longest part.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Returns the rows of all ranks, in rank order: [Σ nᵣ, …] if rank r passes [nᵣ, …]. Backward sums each row's gradients
/// over the ranks.
[[nodiscard]] at::Tensor all_gather(const std::shared_ptr<Communicator>& comm, const at::Tensor& rows);
/// Returns the tensors of all ranks, in rank order: ChainerMN's allgather. Backward sums each tensor's gradients over
/// the ranks.
[[nodiscard]] std::vector<at::Tensor> allgather(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor);
/// Returns the sum over ranks of tensors of the same shape. Backward sums the gradients over the ranks.
[[nodiscard]] at::Tensor all_reduce(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor);
/// Sends parts[r] to rank r, and returns the sum of the parts that all ranks have sent to the calling rank. parts[r]
/// has the same shape [nᵣ, …] on all ranks. Backward gathers the gradients of all ranks' sums. Throws ArgumentError
/// unless there is one part for each rank.
[[nodiscard]] at::Tensor reduce_scatter(const std::shared_ptr<Communicator>& comm,
                                        const std::vector<at::Tensor>& parts);
/// Returns the root's tensor on every rank. All ranks but the root may pass an undefined tensor. Backward sums the
/// gradients on the root.
[[nodiscard]] at::Tensor broadcast(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor, int root = 0);
/// On the root, returns the sum over ranks of tensors of the same shape; on all other ranks a delegate. Backward sends
/// the gradient of the sum to every rank.
[[nodiscard]] at::Tensor reduce(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor, int root = 0);
/// On the root, returns the tensors of all ranks, in rank order; on all other ranks a delegate alone. Backward sends
/// each tensor's gradient to the tensor's rank.
[[nodiscard]] std::vector<at::Tensor> gather(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor,
                                             int root = 0);
/// Returns the root's tensor parts[r] on rank r. The `parts` of all other ranks are ignored, and may be empty. Backward
/// sends the gradients to the root. Throws ArgumentError unless the root has one part for each rank.
[[nodiscard]] at::Tensor scatter(const std::shared_ptr<Communicator>& comm, const std::vector<at::Tensor>& parts,
                                 int root = 0);
/// Sends parts[r], of any shape, to rank r. Returns the parts that the ranks have sent to the calling rank, in rank
/// order. Backward sends the gradients back. Throws ArgumentError unless there is one part for each rank.
[[nodiscard]] std::vector<at::Tensor> alltoall(const std::shared_ptr<Communicator>& comm,
                                               const std::vector<at::Tensor>& parts);

}  // namespace mn
