/// Collective calls that gradients pass through, as torch.distributed.nn.functional has them.
///
/// Each call is collective, and so is its backward, in which gradients travel the other way: every rank makes the same
/// calls in the same order, and each result is part of the loss on every rank or on none. Parts may differ in their
/// first dimension, and be empty. Results are new tensors on the communicator's device. Shapes or dtypes that do not
/// match throw the same ArgumentError on every rank.
///
/// Weights. The ranks minimize Σ wᵣ Lᵣ / Σ wᵣ, where wᵣ is what rank r's mean loss is over: the samples of
/// optimizer->step(samples). A gradient that comes from rank s must count wₛ. So each loss is multiplied by its weight
/// before backward, and gradients add up over ranks as they are:
///
///   a Trainer                              does so by itself
///   a loop, ranks with equal samples       loss.backward(); optimizer->step();
///   a loop, any samples                    optimizer->scale_loss(loss, samples).backward(); optimizer->step(samples);
///
/// step(samples) throws ArgumentError where the weights differ and the loss came without its own.
///
/// Cost: one small allgather of shapes, then one call of the communicator. Parts of different lengths travel as long as
/// the longest.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// The rows of all ranks, in rank order: [Σ nᵣ, …] of [nᵣ, …]. Backward sums each row's gradients over the ranks.
[[nodiscard]] at::Tensor all_gather(const std::shared_ptr<Communicator>& comm, const at::Tensor& rows);
/// The sum over ranks of tensors of one shape. Backward sums the gradients over the ranks.
[[nodiscard]] at::Tensor all_reduce(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor);
/// The sum over ranks of the parts for this rank: parts[r], [nᵣ, …], is for rank r, and has the same shape on all
/// ranks. Backward gathers the gradients of all ranks' sums. Throws ArgumentError unless there is one part for each
/// rank.
[[nodiscard]] at::Tensor reduce_scatter(const std::shared_ptr<Communicator>& comm,
                                        const std::vector<at::Tensor>& parts);
/// The root's tensor; what others give is ignored, and may be undefined. Backward sums the gradients on the root.
[[nodiscard]] at::Tensor broadcast(const std::shared_ptr<Communicator>& comm, const at::Tensor& tensor, int root = 0);
/// What each rank has for this one: parts[r], of any shape, goes to rank r. Backward sends the gradients back. Throws
/// ArgumentError unless there is one part for each rank.
[[nodiscard]] std::vector<at::Tensor> alltoall(const std::shared_ptr<Communicator>& comm,
                                               const std::vector<at::Tensor>& parts);

}  // namespace mn
