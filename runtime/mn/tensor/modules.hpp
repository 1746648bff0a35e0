/// What mn asks of a torch::nn::Module, in functions: <torch/nn/module.h> is one of libtorch's dearest headers to
/// compile, and their source alone includes it for modules.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}

namespace mn {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Those of the module and of all modules in it, under torch's names ("layer1.0.conv1.weight"). They share the module's
/// memory.
[[nodiscard]] NamedTensors named_parameters(const torch::nn::Module& module);
[[nodiscard]] NamedTensors named_buffers(const torch::nn::Module& module);
/// Parameters, then buffers.
[[nodiscard]] NamedTensors named_tensors(const torch::nn::Module& module);

/// Without the names.
[[nodiscard]] std::vector<at::Tensor> parameters_of(const torch::nn::Module& module);
[[nodiscard]] std::vector<at::Tensor> buffers_of(const torch::nn::Module& module);

/// Training mode or evaluation mode, of the module and all modules in it.
[[nodiscard]] bool is_training(const torch::nn::Module& module);
void set_training(torch::nn::Module& module, bool on);

}  // namespace mn
