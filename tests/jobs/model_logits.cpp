// model_logits ARCH CLASSES IN OUT: for the weights and "images" of the safetensors file IN, writes "logits" (in
// evaluation mode) and all of the weights as this program holds them to OUT.
#include <algorithm>
#include <iostream>

#include <torch/torch.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/file.hpp>
#include <mn/models/models.hpp>

namespace {

at::Tensor take(mn::NamedTensors& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; });
  at::Tensor tensor = found->second;
  tensors.erase(found);
  return tensor;
}

}  // namespace

int main(int, char** argv) {
  const std::string arch = argv[1];
  const std::string in = argv[3];
  mn::NamedTensors tensors = mn::load_safetensors(in);
  const at::Tensor images = take(tensors, "images");

  const torch::NoGradGuard no_grad;
  const auto model = mn::models::create_model(arch, std::stoi(argv[2]));
  mn::copy_into(*model, tensors, in);
  model->eval();
  mn::NamedTensors result = mn::named_tensors(*model);
  result.emplace_back("logits", model->forward(images));
  mn::write_file(argv[4], mn::to_safetensors(result));
  return 0;
}
