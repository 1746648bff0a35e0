/// Messages with the elements of a tensor, for a receiver that already has the tensor's form (dtype and shape).
///
/// The sender decides how the elements travel: by the device's own collectives, in the order of the current stream, or
/// by MPI. The device's collectives know no tags, so messages with a tag other than 0 travel by MPI. Messages by the
/// device are numbered: a receiver that would take the elements of a wrong message throws CommError.
#pragma once

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/message_form.hpp>

namespace mn {

/// Returns the tensor detached and contiguous, as communicators need it. Throws an ArgumentError that begins with
/// `call` if the tensor is undefined or has a dtype that communicators do not move.
[[nodiscard]] at::Tensor dense_elements(const at::Tensor& tensor, const char* call);
/// Returns the form of `dense`, a result of dense_elements(), for the next send_elements() to rank `dest`. `ahead` is
/// the number of tensors that the device will send to `dest` before this tensor.
[[nodiscard]] MessageForm message_form(Communicator& comm, const at::Tensor& dense, int dest, int tag, const char* call,
                                       std::int64_t ahead = 0);
/// Throws CommError if `form` describes no tensor.
[[nodiscard]] at::Tensor tensor_for(const MessageForm& form, int source, const Communicator& comm);

void send_elements(Communicator& comm, const at::Tensor& dense, const MessageForm& form, int dest, int tag);
void recv_elements(Communicator& comm, const at::Tensor& into, const MessageForm& form, int source, int tag);
/// For ranks that both know the form already. Both tensors lie on the communicators' devices, so both ranks choose
/// alike between the device's collectives and MPI.
/// @{
void send_elements(Communicator& comm, const at::Tensor& dense, int dest, int tag);
void recv_elements(Communicator& comm, const at::Tensor& into, int source, int tag);
/// @}

}  // namespace mn
