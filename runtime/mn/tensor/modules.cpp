#include <torch/nn/module.h>

#include <mn/tensor/modules.hpp>

namespace mn {
namespace {

void append(NamedTensors& tensors, const torch::OrderedDict<std::string, at::Tensor>& items) {
  for (const auto& item : items) tensors.emplace_back(item.key(), item.value());
}

}  // namespace

NamedTensors named_parameters(const torch::nn::Module& module) {
  NamedTensors tensors;
  append(tensors, module.named_parameters());
  return tensors;
}

NamedTensors named_buffers(const torch::nn::Module& module) {
  NamedTensors tensors;
  append(tensors, module.named_buffers());
  return tensors;
}

NamedTensors named_tensors(const torch::nn::Module& module) {
  NamedTensors tensors = named_parameters(module);
  append(tensors, module.named_buffers());
  return tensors;
}

std::vector<at::Tensor> parameters_of(const torch::nn::Module& module) { return module.parameters(); }

std::vector<at::Tensor> buffers_of(const torch::nn::Module& module) { return module.buffers(); }

bool is_training(const torch::nn::Module& module) { return module.is_training(); }

void set_training(torch::nn::Module& module, bool on) { module.train(on); }

}  // namespace mn
