/// Messages with one tensor, whose form (dtype and shape) goes ahead of the elements or is known to the receiver.
///
/// The sender decides how the elements travel: by the device's own collectives, in the order of the current stream, or
/// by MPI. The device's collectives know no tags, so messages with a tag other than 0 travel by MPI. Messages by the
/// device are numbered: a receiver that would take the elements of a wrong message throws CommError.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/message_form.hpp>

namespace mn {

/// Returns the tensor detached and contiguous, as communicators need it. Throws an ArgumentError that begins with
/// `call` if the tensor is undefined or has a dtype that communicators do not move.
[[nodiscard]] at::Tensor dense_elements(const at::Tensor& tensor, const char* call);
/// Returns the form of `dense`, a result of dense_elements(), for the next message to rank `dest`.
[[nodiscard]] MessageForm message_form(Communicator& comm, const at::Tensor& dense, int dest, int tag,
                                       const char* call);
/// Throws CommError if `form` describes no tensor.
[[nodiscard]] at::Tensor tensor_for(const MessageForm& form, int source, const Communicator& comm);

/// Sends `form`, within the numbers `head`, and the elements. recv_with_form() must receive them.
void send_with_form(Communicator& comm, std::span<const std::int64_t> head, const MessageForm& form,
                    const at::Tensor& dense, int dest, int tag);
/// Receives `head`, which contains `form`, and then the elements into the contiguous tensor that into() returns. Sets
/// `source` to the sender's rank; it may be kAnySource. Returns the tensor.
[[nodiscard]] at::Tensor recv_with_form(Communicator& comm, std::span<std::int64_t> head, const MessageForm& form,
                                        const std::function<at::Tensor()>& into, int& source, int tag);

// The other functions are for ranks that both have the form.

void send_elements(Communicator& comm, const at::Tensor& dense, const MessageForm& form, int dest, int tag);
void recv_elements(Communicator& comm, const at::Tensor& into, const MessageForm& form, int source, int tag);
/// Both tensors lie on the communicators' devices, so both ranks choose
/// alike between the device's collectives and MPI.
/// @{
void send_elements(Communicator& comm, const at::Tensor& dense, int dest, int tag);
void recv_elements(Communicator& comm, const at::Tensor& into, int source, int tag);
/// @}

}  // namespace mn
