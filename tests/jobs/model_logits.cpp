// model_logits ARCH CLASSES IN OUT [SKIP DROPOUT]: for the weights and "images" of the safetensors file IN, writes
// "logits" (in evaluation mode) and all of the weights as this program holds them to OUT. IN may have the names that
// jobs/imagenet --initmodel takes. With SKIP and DROPOUT, the logits are those of training mode, with stochastic depth
// SKIP, dropout DROPOUT and seed 5. OUT then also has "gradient": the images' gradient of the logits' sum of squares.
#include <algorithm>
#include <iostream>

#include <torch/torch.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/checkpoint/weights_files.hpp>
#include <mn/core/file.hpp>
#include <mn/models/models.hpp>

#include "imagenet/weights.hpp"

namespace {

at::Tensor take(mn::NamedTensors& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; });
  at::Tensor tensor = found->second;
  tensors.erase(found);
  return tensor;
}

mn::NamedTensors read(const std::string& path, const mn::FileLayout& layout) {
  mn::WeightsReader reader = mn::open_weights(path, "");
  mn::arrange(reader, layout);
  mn::NamedTensors tensors;
  for (std::size_t i = 0; i < reader.tensors.size(); ++i) {
    tensors.emplace_back(reader.tensors[i].first, reader.read(i));
  }
  return tensors;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string arch = argv[1];
  const std::string in = argv[3];
  mn::NamedTensors tensors = read(in, mn::jobs::weights_layout(arch));
  const at::Tensor images = take(tensors, "images");

  mn::models::ClassifierOptions options{.image_size = images.size(2)};
  const bool trains = argc > 6;
  if (trains) options.stochastic_depth = std::stod(argv[5]);
  if (trains) options.dropout = std::stod(argv[6]);
  const auto model = mn::models::create_model(arch, std::stoi(argv[2]), options);
  mn::copy_into(*model, tensors, in);
  model->train(trains);
  torch::manual_seed(5);
  images.requires_grad_(trains);
  const at::Tensor logits = model->forward(images);
  mn::NamedTensors result = mn::named_tensors(*model);
  result.emplace_back("logits", logits.detach());
  if (trains) {
    logits.square().sum().backward();
    result.emplace_back("gradient", images.grad());
  }
  mn::write_file(argv[4], mn::to_safetensors(result));
  return 0;
}
