/// Messages with the elements of a tensor, whose form the receiver has got before.
///
/// The sender decides how the elements go: by the device's own collectives, in the order of the current stream, or by
/// MPI. The device's collectives know no tags, so elements of messages with another tag than 0 go by MPI. Messages by
/// the device are numbered: a receiver that would take the elements of another message throws CommError.
#pragma once

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/tensor_form.hpp>

namespace mn {

/// The tensor detached and contiguous, as communicators need it. Throws an ArgumentError that names `call` if the
/// tensor is undefined or has a dtype that communicators do not move.
[[nodiscard]] at::Tensor dense_elements(const at::Tensor& tensor, const char* call);
/// The form of dense_elements(), which the next send_elements() to `dest` takes. `ahead`: number of tensors that are to
/// go to `dest` by the device before.
[[nodiscard]] TensorForm message_form(Communicator& comm, const at::Tensor& dense, int dest, int tag, const char* call,
                                      std::int64_t ahead = 0);
/// A new tensor for what `source` sends. Throws CommError if the numbers describe no tensor.
[[nodiscard]] at::Tensor tensor_for(const TensorForm& form, int source, const Communicator& comm);

void send_elements(Communicator& comm, const at::Tensor& dense, const TensorForm& form, int dest, int tag);
void recv_elements(Communicator& comm, const at::Tensor& into, const TensorForm& form, int source, int tag);
/// Both ranks know the form, and their tensors lie on the communicators' devices, so both decide alike how they go.
/// @{
void send_elements(Communicator& comm, const at::Tensor& dense, int dest, int tag);
void recv_elements(Communicator& comm, const at::Tensor& into, int source, int tag);
/// @}

}  // namespace mn
