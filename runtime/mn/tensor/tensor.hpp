/// Lets communicators take tensors: every call of a Communicator accepts an at::Tensor as a buffer.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <mn/core/buffer.hpp>

namespace torch::nn {
class Module;
}

namespace mn {

class Communicator;

/// Returns the memory of the tensor as a buffer for calls in the order of the current stream. Throws ArgumentError if
/// the tensor is not contiguous, or if communicators do not send its dtype.
[[nodiscard]] BufferView buffer_view(const at::Tensor& tensor);

/// The stream on which the calling thread enqueues its work for `device`.
[[nodiscard]] c10::Stream current_stream(Device device);
/// Returns the same buffers with the present current stream, so that calls run in the order of this stream.
[[nodiscard]] std::vector<BufferView> on_current_stream(std::span<const BufferView> buffers);

/// Gives parameters and buffers their names in the model, which the messages of debug mode use. A Trainer calls
/// name_tensors() for the trained model.
void name_tensors(const torch::nn::Module& model);
/// Returns the name that name_tensors() gave the tensor, or "parameter i" if the tensor has no name.
[[nodiscard]] std::string tensor_name(const at::Tensor& tensor, std::size_t i);

/// Returns the tensors that can have gradients: those with floating-point or complex dtypes. A tensor that several
/// modules share is returned only once.
[[nodiscard]] std::vector<at::Tensor> differentiable(std::vector<at::Tensor> tensors);

/// With this specialization communicators take tensors as buffers.
template <>
struct BufferTraits<at::Tensor> {
  /// Returns buffer_view(tensor).
  static BufferView view(const at::Tensor& tensor) { return buffer_view(tensor); }
};

/// With this specialization a communicator's device converts to libtorch's type.
template <>
struct DeviceTraits<c10::Device> {
  /// Converts `device` to libtorch's type.
  [[nodiscard]] static c10::Device from(Device device);
};

/// Collective: does the work of Communicator::broadcast_data() for a module's parameters and buffers.
void broadcast_tensors(Communicator& comm, const torch::nn::Module& model, int root);
/// Collective: does the work of Communicator::broadcast_data() for a list of tensors. Skips sharded parameters that are
/// not whole. If the number of tensors, their shapes or their dtypes differ between ranks, every rank throws an equal
/// ArgumentError.
void broadcast_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors, int root);
/// Collective: does the work of Communicator::allreduce_grad() for a module's parameters.
void average_gradients(Communicator& comm, const torch::nn::Module& model);
/// Collective: does the work of Communicator::allreduce_grad() for a list of parameters. Each gradient becomes its mean
/// over ranks; an existing gradient is overwritten in place. On a rank without a gradient, the gradient counts as zero
/// if any rank has one.
void average_gradients(Communicator& comm, const std::vector<at::Tensor>& parameters);

}  // namespace mn
