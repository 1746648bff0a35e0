/// Functions that access a torch::nn::Module. Only their source file includes libtorch's module.h, one of the slowest
/// headers to compile.
#pragma once

#include <functional>
#include <optional>
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

/// The parameters of the module and its submodules, under torch's names ("layer1.0.conv1.weight"). All tensors that the
/// functions of this file return share the module's memory.
[[nodiscard]] NamedTensors named_parameters(const torch::nn::Module& module);
/// The buffers of the module and its submodules, under torch's names.
[[nodiscard]] NamedTensors named_buffers(const torch::nn::Module& module);
/// The parameters, then the buffers, with names.
[[nodiscard]] NamedTensors named_tensors(const torch::nn::Module& module);

/// named_parameters() without the names.
[[nodiscard]] std::vector<at::Tensor> parameters_of(const torch::nn::Module& module);
/// named_buffers() without the names.
[[nodiscard]] std::vector<at::Tensor> buffers_of(const torch::nn::Module& module);

/// Names of the parameters without requires_grad.
[[nodiscard]] std::vector<std::string> frozen_parameters(const torch::nn::Module& module);

/// The floating-point buffers called running_mean or running_var, with names: statistics that batch and instance
/// normalization gather from this rank's samples.
[[nodiscard]] NamedTensors running_statistics(const torch::nn::Module& module);

/// Sets the mode of each normalization with running statistics (batch and instance normalization) by its name:
/// `mode_of(name)` returns true for training mode, false for evaluation mode (where the statistics are used and do not
/// change), or no value to leave the mode unchanged.
void set_statistics_modes(torch::nn::Module& module,
                          const std::function<std::optional<bool>(const std::string& name)>& mode_of);

/// Stores the weights of convolutions (4 dimensions) in the memory order (N, H, W, C) of channels_last images; else a
/// convolution would reorder its weights at each call. Call it before an optimizer takes the parameters.
void use_channels_last(torch::nn::Module& module);

/// True in training mode, false in evaluation mode.
[[nodiscard]] bool is_training(const torch::nn::Module& module);
/// Sets the mode of the module and its submodules.
void set_training(torch::nn::Module& module, bool on);
/// The modes of the module and its submodules, which may differ from each other. Pass the result to
/// set_training_modes().
[[nodiscard]] std::vector<bool> training_modes(const torch::nn::Module& module);
/// Restores modes from training_modes() of the module.
void set_training_modes(torch::nn::Module& module, const std::vector<bool>& modes);

}  // namespace mn
