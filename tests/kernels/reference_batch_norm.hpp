/// Makes random input for batch normalization with ReLU, computes libtorch's results for it in float64, and calls mn's
/// operators.
#pragma once

#include <vector>

#include <torch/torch.h>

#include <mn/kernels/operators.hpp>

namespace mn::testing {

constexpr double kBatchNormEps = 0.01;

struct BatchNormInput {
  at::Tensor x, added, weight, bias, d_y;  // added may be undefined
  bool relu = true;
  bool fixed = false;  // the moments do not depend on x

  /// Returns mean, invstd, weight and bias of each channel.
  [[nodiscard]] std::vector<at::Tensor> channels() const {
    const auto [variance, mean] = torch::var_mean(x.to(torch::kDouble), {0, 2, 3}, /*correction=*/0);
    const at::ScalarType real = kernels::real_type(x.scalar_type());
    return {mean.to(real), torch::rsqrt(variance + kBatchNormEps).to(real), weight, bias};
  }
};

/// Makes a minibatch (N, C, H, W), channels_last or contiguous. The weights have the type in which kernels compute.
inline BatchNormInput batch_norm_input(const std::vector<std::int64_t>& shape, at::ScalarType type, bool last) {
  torch::manual_seed(shape[0] * 1000 + shape[1]);
  const auto format = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const auto random = [&] { return (torch::randn(shape) * 2 + 0.5).to(type).contiguous(format); };
  const at::ScalarType real = kernels::real_type(type);
  return {random(), random(), torch::randn({shape[1]}, real) + 1, torch::randn({shape[1]}, real), random()};
}

struct BatchNormResults {
  at::Tensor y, d_x, d_added, d_weight, d_bias;
};

inline BatchNormResults reference_batch_norm(const BatchNormInput& input) {
  const auto leaf = [](const at::Tensor& tensor) { return tensor.to(torch::kDouble, false, true).requires_grad_(); };
  const at::Tensor x = leaf(input.x), weight = leaf(input.weight), bias = leaf(input.bias);
  const auto [variance, mean] = torch::var_mean(input.x.to(torch::kDouble), {0, 2, 3}, /*correction=*/0);
  at::Tensor y = torch::batch_norm(x, weight, bias, input.fixed ? mean : at::Tensor(),
                                   input.fixed ? variance : at::Tensor(), !input.fixed, 0, kBatchNormEps, false);
  const at::Tensor added = input.added.defined() ? leaf(input.added) : at::Tensor();
  if (added.defined()) y = y + added;
  if (input.relu) y = y.relu();
  (y * input.d_y.to(torch::kDouble)).sum().backward();
  return {y, x.grad(), added.defined() ? added.grad() : at::Tensor(), weight.grad(), bias.grad()};
}

inline BatchNormResults run_batch_norm_operators(const BatchNormInput& input, c10::Device device) {
  const auto moved = [&](const at::Tensor& tensor) { return tensor.to(device); };
  const at::Tensor x = moved(input.x), d_y = moved(input.d_y);
  std::vector<at::Tensor> channels = input.channels();
  for (at::Tensor& numbers : channels) numbers = moved(numbers);
  const auto added = input.added.defined() ? std::optional(moved(input.added)) : std::nullopt;
  const at::Tensor y = kernels::call_operator<kernels::BatchNormForwardSignature>("mn::batch_norm_forward", x, added,
                                                                                  channels, input.relu);
  const auto [sums, d_added] = kernels::call_operator<kernels::BatchNormSumsSignature>(
      "mn::batch_norm_sums", d_y, x, added ? std::optional(y) : std::nullopt, channels, input.relu);
  const at::Tensor d_x = kernels::call_operator<kernels::BatchNormBackwardSignature>(
      "mn::batch_norm_backward", added ? d_added : d_y, x, channels,
      input.fixed ? std::nullopt : std::optional<at::Tensor>(sums),
      static_cast<double>(x.numel()) / static_cast<double>(x.size(1)), input.relu && !added);
  return {y, d_x, d_added, sums[1], sums[0]};
}

}  // namespace mn::testing
