#include "mnist/perceptron.hpp"

#include <cstdint>

namespace mn::jobs {

MlpImpl::MlpImpl(std::int64_t unit)
    : l1_(register_module("l1", torch::nn::Linear(28 * 28, unit))),
      l2_(register_module("l2", torch::nn::Linear(unit, unit))),
      l3_(register_module("l3", torch::nn::Linear(unit, 10))) {}

torch::Tensor MlpImpl::forward(const torch::Tensor& images) {
  const torch::Tensor hidden = torch::relu(l1_(images.flatten(1)));  // (N, unit)
  return l3_(torch::relu(l2_(hidden)));
}

}  // namespace mn::jobs
