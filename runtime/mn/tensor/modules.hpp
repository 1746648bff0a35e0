/// What mn asks of a torch::nn::Module, as functions. Only their source includes libtorch's module.h, one of its
/// slowest headers to compile.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}

namespace mn {

/// Tensors with their names, in order.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// The parameters of the module and of all modules in it, under torch's names ("layer1.0.conv1.weight"). They share the
/// module's memory, as do the results of all functions here.
[[nodiscard]] NamedTensors named_parameters(const torch::nn::Module& module);
/// The same for buffers.
[[nodiscard]] NamedTensors named_buffers(const torch::nn::Module& module);
/// Parameters, then buffers.
[[nodiscard]] NamedTensors named_tensors(const torch::nn::Module& module);

/// named_parameters() without the names.
[[nodiscard]] std::vector<at::Tensor> parameters_of(const torch::nn::Module& module);
/// named_buffers() without the names.
[[nodiscard]] std::vector<at::Tensor> buffers_of(const torch::nn::Module& module);

/// Names of the parameters without requires_grad.
[[nodiscard]] std::vector<std::string> frozen_parameters(const torch::nn::Module& module);

/// The floating-point buffers called running_mean or running_var, with their names: what batch and instance
/// normalization have gathered of this rank's samples.
[[nodiscard]] NamedTensors running_statistics(const torch::nn::Module& module);

/// Orders the weights of convolutions (4 dimensions) in memory as (N, H, W, C), as images with channels_last strides
/// want them: a convolution would reorder them at each call. Call it before an optimizer takes the parameters.
void use_channels_last(torch::nn::Module& module);

/// True in training mode, false in evaluation mode.
[[nodiscard]] bool is_training(const torch::nn::Module& module);
/// Sets the mode of the module and of all modules in it.
void set_training(torch::nn::Module& module, bool on);
/// is_training() of the module and of all modules in it, which may differ; for set_training_modes().
[[nodiscard]] std::vector<bool> training_modes(const torch::nn::Module& module);
/// Sets the modes that training_modes() returned for the same module.
void set_training_modes(torch::nn::Module& module, const std::vector<bool>& modes);

}  // namespace mn
