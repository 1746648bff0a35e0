/// Makes tensors buffers: every call of a Communicator accepts an at::Tensor.
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

/// A view of the tensor's memory. Calls on the view are ordered by the current stream. Throws ArgumentError if the
/// tensor is not contiguous or has a dtype that communicators don't move.
[[nodiscard]] BufferView buffer_view(const at::Tensor& tensor);

/// The stream on which the calling thread enqueues its work for `device`.
[[nodiscard]] c10::Stream current_stream(Device device);
/// Copies of earlier views, now ordered by the current stream.
[[nodiscard]] std::vector<BufferView> on_current_stream(std::span<const BufferView> buffers);

/// Gives parameters and buffers their names in the model, for messages of debug mode. A Trainer calls this function for
/// its model.
void name_tensors(const torch::nn::Module& model);
/// The name from name_tensors(); "parameter i" for a tensor without a name.
[[nodiscard]] std::string tensor_name(const at::Tensor& tensor, std::size_t i);

/// The tensors of floating-point dtypes, which can have gradients. Each tensor comes once, even if several modules
/// share it.
[[nodiscard]] std::vector<at::Tensor> differentiable(std::vector<at::Tensor> tensors);

/// Lets communicators take tensors as buffers.
template <>
struct BufferTraits<at::Tensor> {
  /// buffer_view() of the tensor.
  static BufferView view(const at::Tensor& tensor) { return buffer_view(tensor); }
};

/// Lets libtorch take a communicator's device.
template <>
struct DeviceTraits<c10::Device> {
  /// The same device as libtorch's type.
  [[nodiscard]] static c10::Device from(Device device);
};

/// Calls Communicator::broadcast_data() for a module's parameters and buffers. Collective.
void broadcast_tensors(Communicator& comm, const torch::nn::Module& model, int root);
/// Calls Communicator::broadcast_data() for tensors. Collective. If number, shapes or dtypes differ between ranks,
/// every rank throws the same ArgumentError.
void broadcast_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors, int root);
/// Calls Communicator::allreduce_grad() for a module's parameters. Collective.
void average_gradients(Communicator& comm, const torch::nn::Module& model);
/// Calls Communicator::allreduce_grad() for parameters. Collective. Gradients become the mean over ranks; a gradient
/// that exists is overwritten in place. If only some ranks have a gradient, the other ranks' gradients count as zero.
void average_gradients(Communicator& comm, const std::vector<at::Tensor>& parameters);

}  // namespace mn
