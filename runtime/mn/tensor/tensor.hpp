/// Tensors as buffers: lets every call of a Communicator take an at::Tensor.
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

/// The tensor's memory, in the order of the stream that is current now. Throws ArgumentError if it is not contiguous or
/// of a dtype that communicators don't move.
[[nodiscard]] BufferView buffer_view(const at::Tensor& tensor);

/// The stream on which the calling thread enqueues its work for `device`.
[[nodiscard]] c10::Stream current_stream(Device device);
/// Views that were made earlier, in the order of the stream that is current now.
[[nodiscard]] std::vector<BufferView> on_current_stream(std::span<const BufferView> buffers);

/// Gives parameters and buffers the names that they have in the model; debug mode's messages then use them. A Trainer
/// does so for its model.
void name_tensors(const torch::nn::Module& model);
/// The name that name_tensors() gave; "parameter i" for a tensor without one.
[[nodiscard]] std::string tensor_name(const at::Tensor& tensor, std::size_t i);

/// The tensors that can have gradients, which integers can't; each once, however often it is listed (modules may share
/// it).
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

/// Communicator::broadcast_data() for a module: parameters and buffers. Collective.
void broadcast_tensors(Communicator& comm, const torch::nn::Module& model, int root);
/// Communicator::broadcast_data() for tensors. Collective; throws the same ArgumentError on every rank if they differ
/// in number, shape or dtype.
void broadcast_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors, int root);
/// Communicator::allreduce_grad() for a module's parameters. Collective.
void average_gradients(Communicator& comm, const torch::nn::Module& model);
/// Communicator::allreduce_grad() for parameters. Collective: gradients become their mean over ranks, in place where
/// they exist; None counts as zero where another rank has a gradient.
void average_gradients(Communicator& comm, const std::vector<at::Tensor>& parameters);

}  // namespace mn
