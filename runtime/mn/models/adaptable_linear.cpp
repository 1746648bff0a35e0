#include <mn/models/adaptable_linear.hpp>

#include <torch/torch.h>

namespace mn::models {

namespace nn = torch::nn;

torch::Tensor AdaptableLinear::forward(const torch::Tensor& x) {
  const torch::Tensor result = torch::linear(x, weight, bias);
  if (!is_adapted()) return result;
  const torch::Tensor low = torch::linear(torch::dropout(x, dropout_, is_training()), down_->weight);
  return result + scale_ * torch::linear(low, up_->weight);
}

void AdaptableLinear::add_lora(std::int64_t rank, double scale, double dropout) {
  const auto narrow = [](std::int64_t inputs, std::int64_t outputs) {
    return std::make_shared<LinearImpl>(nn::LinearOptions(inputs, outputs).bias(false));
  };
  scale_ = scale;
  dropout_ = dropout;
  down_ = register_module("lora_A", narrow(options.in_features(), rank));  // PEFT's A has LinearImpl's weights, too
  up_ = register_module("lora_B", narrow(rank, options.out_features()));
  nn::init::zeros_(up_->weight);
}

void AdaptableLinear::merge_lora() {
  if (!is_adapted()) return;
  const torch::NoGradGuard no_grad;
  weight.add_(torch::mm(up_->weight, down_->weight), scale_);
  for (const char* name : {"lora_A", "lora_B"}) unregister_module(name);
  down_ = up_ = nullptr;
}

}  // namespace mn::models
