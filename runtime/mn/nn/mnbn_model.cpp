#include <mn/nn/mnbn_model.hpp>

#include <string>
#include <utility>

#include <torch/nn/modules/batchnorm.h>

#include <mn/core/error.hpp>
#include <mn/nn/batch_norm.hpp>

namespace mn {
namespace {

using torch::nn::AnyModule;
using torch::nn::BatchNormOptions;
using torch::nn::Module;

/// Null if `layer` is not a batch norm.
const BatchNormOptions* batch_norm_options(const Module& layer) {
  if (const auto* one = layer.as<torch::nn::BatchNorm1d>()) return &one->options;
  if (const auto* two = layer.as<torch::nn::BatchNorm2d>()) return &two->options;
  if (const auto* three = layer.as<torch::nn::BatchNorm3d>()) return &three->options;
  return nullptr;
}

AnyModule multi_node(const Module& layer, const BatchNormOptions& options, const std::shared_ptr<Communicator>& comm) {
  MultiNodeBatchNorm result(comm, options);
  const torch::NoGradGuard no_grad;
  const auto copy = [](const at::Tensor& from, at::Tensor to) {
    to.set_data(from.detach().clone());  // also copies device and dtype
    to.set_requires_grad(from.requires_grad());
  };
  const auto values = layer.named_parameters(), buffers = layer.named_buffers();
  for (const auto& item : result->named_parameters()) copy(values[item.key()], item.value());
  for (const auto& item : result->named_buffers()) copy(buffers[item.key()], item.value());
  result->train(layer.is_training());
  return AnyModule(result);
}

void check_without_batch_norm(const std::string& name, const Module& layer) {
  for (const auto& item : layer.named_modules()) {
    if (batch_norm_options(*item.value()) == nullptr) continue;
    throw ArgumentError("create_mnbn_model can't convert " + name + " (" + layer.name() + "), which calls " +
                        item.key() + " by its type: declare that as mn::MultiNodeBatchNorm");
  }
}

}  // namespace

torch::nn::Sequential create_mnbn_model(const torch::nn::Sequential& model, const std::shared_ptr<Communicator>& comm) {
  if (!comm || model.is_empty()) throw ArgumentError("create_mnbn_model needs a model and a communicator");
  torch::nn::Sequential result;
  result->train(model->is_training());  // the layers keep their modes
  const auto names = model->named_children().keys();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Module& layer = *model->ptr(i);
    if (const BatchNormOptions* options = batch_norm_options(layer)) {
      result->push_back(names[i], multi_node(layer, *options, comm));
    } else {
      check_without_batch_norm(names[i], layer);
      result->push_back(names[i], *(model->begin() + static_cast<std::ptrdiff_t>(i)));
    }
  }
  return result;
}

std::shared_ptr<ExportedModule> create_mnbn_model(std::shared_ptr<ExportedModule> model,
                                                  std::shared_ptr<Communicator> comm) {
  if (!comm || !model) throw ArgumentError("create_mnbn_model needs a model and a communicator");
  model->normalize_over(std::move(comm));
  return model;
}

}  // namespace mn
