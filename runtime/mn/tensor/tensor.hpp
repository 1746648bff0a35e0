/// Tensors as buffers: lets every call of a Communicator take an at::Tensor.
#pragma once

#include <cstddef>
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

/// The tensor's memory. Throws ArgumentError if it is not contiguous or of a dtype that communicators don't move.
[[nodiscard]] BufferView buffer_view(const at::Tensor& tensor);

/// The stream on which the calling thread's work for `device` is enqueued.
[[nodiscard]] c10::Stream current_stream(Device device);

/// Gives parameters and buffers the names that they have in the model, by which debug mode's messages then call them.
/// A Trainer does so for its model.
void name_tensors(const torch::nn::Module& model);
/// That name; "parameter i" for a tensor that has none.
[[nodiscard]] std::string tensor_name(const at::Tensor& tensor, std::size_t i);

/// Those that can have gradients, all but integers, each once however often it is listed (modules may share it).
[[nodiscard]] std::vector<at::Tensor> differentiable(std::vector<at::Tensor> tensors);

template <>
struct BufferTraits<at::Tensor> {
  static BufferView view(const at::Tensor& tensor) { return buffer_view(tensor); }
};

template <>
struct DeviceTraits<c10::Device> {
  [[nodiscard]] static c10::Device from(Device device);
};

/// What Communicator::broadcast_data() and allreduce_grad() do; see there.
void broadcast_tensors(Communicator& comm, const torch::nn::Module& model, int root);
void broadcast_tensors(Communicator& comm, const std::vector<at::Tensor>& tensors, int root);
void average_gradients(Communicator& comm, const torch::nn::Module& model);
void average_gradients(Communicator& comm, const std::vector<at::Tensor>& parameters);

}  // namespace mn
