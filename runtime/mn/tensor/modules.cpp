#include <mn/tensor/modules.hpp>

#include <algorithm>
#include <iterator>

#include <torch/nn/module.h>

namespace mn {
namespace {

NamedTensors list(const torch::OrderedDict<std::string, at::Tensor>& items) {
  NamedTensors tensors;
  for (const auto& item : items) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

void append_modes(std::vector<bool>& modes, const torch::nn::Module& module) {
  modes.push_back(module.is_training());
  for (const auto& child : module.children()) append_modes(modes, *child);
}

/// Sets the mode of `module`, then of its submodules, because train() of a module also changes its submodules. `mode`
/// points to the first mode to use; returns the position after the last mode that was used.
std::vector<bool>::const_iterator take_modes(torch::nn::Module& module, std::vector<bool>::const_iterator mode) {
  module.train(*mode++);
  for (const auto& child : module.children()) mode = take_modes(*child, mode);
  return mode;
}

}  // namespace

NamedTensors with_prefix(const NamedTensors& tensors, std::string_view prefix) {
  NamedTensors selected;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) selected.emplace_back(name.substr(prefix.size()), tensor);
  }
  return selected;
}

NamedTensors named_parameters(const torch::nn::Module& module) { return list(module.named_parameters()); }

NamedTensors named_buffers(const torch::nn::Module& module) { return list(module.named_buffers()); }

NamedTensors named_tensors(const torch::nn::Module& module) {
  NamedTensors tensors = named_parameters(module);
  std::ranges::move(named_buffers(module), std::back_inserter(tensors));
  return tensors;
}

std::vector<at::Tensor> parameters_of(const torch::nn::Module& module) { return module.parameters(); }

std::vector<at::Tensor> buffers_of(const torch::nn::Module& module) { return module.buffers(); }

std::vector<std::string> frozen_parameters(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named_parameters(module)) {
    if (!parameter.requires_grad()) names.push_back(name);
  }
  return names;
}

NamedTensors running_statistics(const torch::nn::Module& module) {
  NamedTensors statistics = named_buffers(module);
  std::erase_if(statistics, [](const auto& item) {
    const std::string name = item.first.substr(item.first.rfind('.') + 1);  // the whole name if it has no dot
    return (name != "running_mean" && name != "running_var") || !item.second.is_floating_point();
  });
  return statistics;
}

void set_statistics_modes(torch::nn::Module& module,
                          const std::function<std::optional<bool>(const std::string& name)>& mode_of) {
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    if (!item.value()->named_buffers(/*recurse=*/false).contains("running_mean")) continue;
    if (const auto mode = mode_of(item.key())) item.value()->train(*mode);
  }
}

void use_channels_last(torch::nn::Module& module) {
  for (at::Tensor& weight : module.parameters()) {
    if (weight.dim() == 4) weight.set_data(weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }
}

bool is_training(const torch::nn::Module& module) { return module.is_training(); }

void set_training(torch::nn::Module& module, bool on) { module.train(on); }

std::vector<bool> training_modes(const torch::nn::Module& module) {
  std::vector<bool> modes;
  append_modes(modes, module);
  return modes;
}

void set_training_modes(torch::nn::Module& module, const std::vector<bool>& modes) {
  take_modes(module, modes.begin());
}

}  // namespace mn
