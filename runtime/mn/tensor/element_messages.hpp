/// Messages that carry the elements of a tensor. The receiver has got the tensor's form (dtype and shape) before.
///
/// The sender decides how the elements travel: by the device's own collectives, in the order of the current stream, or
/// by MPI. The device's collectives know no tags; therefore elements of messages with a tag other than 0 travel by MPI.
/// Messages by the device are numbered. If a receiver would take the elements of a wrong message, it throws CommError.
#pragma once

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/message_form.hpp>

namespace mn {

/// Returns the tensor detached and contiguous, as communicators need it. Throws an ArgumentError that begins with
/// `call` if the tensor is undefined or has a dtype that communicators do not move.
[[nodiscard]] at::Tensor dense_elements(const at::Tensor& tensor, const char* call);
/// Returns the form of `dense`, a result of dense_elements(). Pass the form to the next send_elements() to rank `dest`.
/// `ahead` is the number of tensors that the device will send to `dest` before this tensor.
[[nodiscard]] MessageForm message_form(Communicator& comm, const at::Tensor& dense, int dest, int tag, const char* call,
                                       std::int64_t ahead = 0);
/// Makes a new tensor for the elements that rank `source` sends. Throws CommError if `form` describes no tensor.
[[nodiscard]] at::Tensor tensor_for(const MessageForm& form, int source, const Communicator& comm);

void send_elements(Communicator& comm, const at::Tensor& dense, const MessageForm& form, int dest, int tag);
void recv_elements(Communicator& comm, const at::Tensor& into, const MessageForm& form, int source, int tag);
/// Sends and receives elements without a form in a message. Both ranks know the form, and both tensors lie on the
/// communicators' devices; therefore both ranks make the same choice between the device's collectives and MPI.
/// @{
void send_elements(Communicator& comm, const at::Tensor& dense, int dest, int tag);
void recv_elements(Communicator& comm, const at::Tensor& into, int source, int tag);
/// @}

}  // namespace mn
