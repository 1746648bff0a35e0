/// The residual stream of transformers, shared by language models and ViT. Normalizations add branches to its sum.
#pragma once

#include <torch/torch.h>

#include <mn/kernels/layer_norm.hpp>
#include <mn/nn/recompute.hpp>

namespace mn::models {

/// The next normalization adds `branch`, the output of the last branch, to the residual stream `sum`.
struct Stream {
  torch::Tensor sum, branch;
};

inline ResidualNorm normalize(const torch::nn::LayerNormImpl& layer, const Stream& stream) {
  return layer_norm_residual(stream.sum, stream.branch, layer.weight, layer.bias, layer.options.eps());
}

/// Passes the stream through `layers`, whose modules are of type Layer: calls layer.forward(stream, inputs…). With
/// `recompute`, the layers' activations are computed again in backward, which keeps copies of `inputs`.
template <class Layer, class... Inputs>
Stream run_layers(torch::nn::ModuleListImpl& layers, Stream stream, bool recompute, const Inputs&... inputs) {
  for (const auto& module : layers) {
    auto& layer = *module->template as<Layer>();
    if (!recompute) {
      stream = layer.forward(stream, inputs...);
      continue;
    }
    const auto forward = [&layer, inputs...](const torch::Tensor& input) {
      const Stream output = layer.forward({input, {}}, inputs...);
      return output.sum + output.branch;
    };
    stream.sum = recompute_activations(forward, stream.sum);
  }
  return stream;
}

}  // namespace mn::models
