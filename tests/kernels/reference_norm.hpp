/// Makes random input for the norms, and computes libtorch's results for it in float64.
#pragma once

#include <torch/torch.h>

namespace mn::testing {

struct NormInput {
  at::Tensor x, branch, weight, bias;  // branch and bias may be undefined
  at::Tensor d_sum, d_normalized;      // gradients of the results; d_sum may be undefined
};

/// Makes a stream and a branch of the given types. The weights have the type in which kernels compute.
inline NormInput norm_input(std::int64_t rows, std::int64_t width, at::ScalarType stream, at::ScalarType branch) {
  torch::manual_seed(rows * 1000 + width);
  const at::ScalarType real = stream == at::kDouble ? at::kDouble : at::kFloat;
  const auto random = [&](at::ScalarType type) { return (torch::randn({rows, width}) * 2 + 0.5).to(type); };
  return {random(stream), random(branch), torch::randn({width}, real) + 1, torch::randn({width}, real),
          random(stream), random(branch)};
}

struct NormResults {
  at::Tensor sum, normalized;
  at::Tensor d_x, d_weight, d_bias;
};

inline NormResults reference_norm(const NormInput& input, double eps, bool centered) {
  const auto leaf = [](const at::Tensor& tensor) { return tensor.to(torch::kDouble, false, true).requires_grad_(); };
  const at::Tensor x = leaf(input.x), weight = leaf(input.weight);
  const at::Tensor bias = input.bias.defined() ? leaf(input.bias) : at::Tensor();
  const at::Tensor sum = input.branch.defined() ? x + input.branch.to(torch::kDouble) : x * 1;
  const std::int64_t width = x.size(-1);
  const at::Tensor normalized =
      centered ? torch::layer_norm(sum, {width}, weight, bias, eps) : torch::rms_norm(sum, {width}, weight, eps);
  at::Tensor total = (normalized * input.d_normalized.to(torch::kDouble)).sum();
  if (input.d_sum.defined()) total = total + (sum * input.d_sum.to(torch::kDouble)).sum();
  total.backward();
  return {sum, normalized, x.grad(), weight.grad(), bias.defined() ? bias.grad() : at::Tensor()};
}

}  // namespace mn::testing
