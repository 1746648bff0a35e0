/// Differentiable messages between two ranks: chainermn.functions.send, recv and pseudo_connect.
///
/// A model whose layers lie on several ranks sends activations in forward; backward sends their gradients in the
/// opposite direction. Every rank calls backward(). A rank without a loss calls it on the delegate that send()
/// returned. If the delegate is passed to a later recv() or pseudo_connect(), one backward() runs through both send()
/// and the later call:
///
///     if (comm->rank() == 0) {
///       const auto delegate = mn::send(first(x), comm, 1);
///       loss_of(mn::recv(comm, 1, delegate)).backward();  // gradients go to rank 1, come back, and go into `first`
///     } else {
///       mn::send(second(mn::recv(comm, 0)), comm, 0).backward();
///     }
///
/// Shapes and dtypes travel with each message, and may differ from call to call. If a tensor needs no gradient on the
/// sender, no gradient is sent back. If some tensor needs a gradient, the sender's backward waits for the receiver's
/// backward. Weights of losses are as in <mn/nn/collectives.hpp>; a rank without a loss passes its delegate to
/// scale_loss(). Gradients of gradients are an error.
///
/// Cost: in forward a message with the forms, and a message for each tensor; in backward a message for each gradient.
/// On GPUs with NCCL, tensors with tag 0 are enqueued on the current stream, and the host waits for forms only. The
/// sender's stream then waits for the receiver: if two ranks send to each other, let the second rank receive first.
/// Throws ArgumentError for dtypes that communicators do not move and for more than 16 dimensions. Throws CommError if
/// the receiver expects a different number of tensors.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Sends a tensor to `rank`, which must call recv(). Returns the delegate: the number 0, whose backward receives the
/// gradient of `x` from `rank`.
[[nodiscard]] at::Tensor send(const at::Tensor& x, const std::shared_ptr<Communicator>& comm, int rank, int tag = 0);
/// Sends several tensors, which may differ in shape and dtype, as one message. `rank` must call recv_tuple().
[[nodiscard]] at::Tensor send(const std::vector<at::Tensor>& xs, const std::shared_ptr<Communicator>& comm, int rank,
                              int tag = 0);
/// Receives a tensor from `rank`, as a new tensor on the communicator's device. Backward sends the gradient to the
/// sender, and runs the backward of `delegate`, unless `delegate` is undefined. `rank` may be kAnySource; `tag` must be
/// the sender's.
[[nodiscard]] at::Tensor recv(const std::shared_ptr<Communicator>& comm, int rank, const at::Tensor& delegate = {},
                              int tag = 0);
/// Receives all tensors of a message, as recv() receives one tensor: ChainerMN's force_tuple.
[[nodiscard]] std::vector<at::Tensor> recv_tuple(const std::shared_ptr<Communicator>& comm, int rank,
                                                 const at::Tensor& delegate = {}, int tag = 0);
/// Returns tensors with the values of `actual`. Their backward also runs the backward of `delegate`, with a gradient of
/// zero. If `delegate` is undefined, or `actual` has integers, `actual` is returned unchanged. Local.
[[nodiscard]] at::Tensor pseudo_connect(const at::Tensor& delegate, const at::Tensor& actual);
/// Does the work of pseudo_connect() for several tensors.
[[nodiscard]] std::vector<at::Tensor> pseudo_connect(const at::Tensor& delegate, const std::vector<at::Tensor>& actual);

}  // namespace mn
