/// Functions on a torch::nn::Module. Include this header in place of libtorch's module.h, which compiles slowly.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}

namespace mn {

/// A list of tensors, each with its name.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Selects the tensors whose names begin with `prefix`. The result has the names without `prefix`.
[[nodiscard]] NamedTensors with_prefix(const NamedTensors& tensors, std::string_view prefix);

/// The parameters of the module and its submodules, under torch's names ("layer1.0.conv1.weight"). All tensors that the
/// functions of this file return share the module's memory.
[[nodiscard]] NamedTensors named_parameters(const torch::nn::Module& module);
/// The buffers of the module and its submodules, under torch's names.
[[nodiscard]] NamedTensors named_buffers(const torch::nn::Module& module);
/// The parameters, then the buffers, with names.
[[nodiscard]] NamedTensors named_tensors(const torch::nn::Module& module);

/// The tensors of named_parameters() without their names.
[[nodiscard]] std::vector<at::Tensor> parameters_of(const torch::nn::Module& module);
/// The tensors of named_buffers() without their names.
[[nodiscard]] std::vector<at::Tensor> buffers_of(const torch::nn::Module& module);

/// The names of all parameters whose requires_grad is false.
[[nodiscard]] std::vector<std::string> frozen_parameters(const torch::nn::Module& module);

/// Returns the running statistics with their names: floating-point buffers called running_mean or running_var, in which
/// batch and instance normalization gather statistics of the calling rank's samples.
[[nodiscard]] NamedTensors running_statistics(const torch::nn::Module& module);

/// Sets the mode of each submodule with running statistics (batch and instance normalization) by the submodule's name.
/// `mode_of(name)` returns true for training mode, and false for evaluation mode, in which the statistics are used and
/// do not change. Without a value the submodule's mode stays as it is.
void set_statistics_modes(torch::nn::Module& module,
                          const std::function<std::optional<bool>(const std::string& name)>& mode_of);

/// Stores the weights of convolutions (4 dimensions) in the memory order (N, H, W, C) of channels_last images;
/// otherwise each call of a convolution would reorder its weights. Call it before an optimizer takes the parameters.
void use_channels_last(torch::nn::Module& module);

/// Whether the module is in training mode. False in evaluation mode.
[[nodiscard]] bool is_training(const torch::nn::Module& module);
/// Puts the module and its submodules into training mode if `on`, otherwise into evaluation mode.
void set_training(torch::nn::Module& module, bool on);
/// Returns the modes of the module and of each submodule, which may differ. Pass the result to set_training_modes().
[[nodiscard]] std::vector<bool> training_modes(const torch::nn::Module& module);
/// Restores the modes that training_modes() returned for the module.
void set_training_modes(torch::nn::Module& module, const std::vector<bool>& modes);

}  // namespace mn
