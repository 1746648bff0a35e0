/// Compares linear_gelu() with libtorch's linear layer and GELU in float64.
#pragma once

#include <string>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/kernels/linear_gelu.hpp>

#include "tests/kernels/reference_loss.hpp"

namespace mn::testing {

/// Compares the result and all gradients for `rows` rows of 16 numbers and `width` outputs on the device. `tolerance`
/// suits the rounding of `type`.
inline void expect_linear_gelu(c10::Device device, std::int64_t rows, std::int64_t width, at::ScalarType type,
                               double tolerance) {
  SCOPED_TRACE(std::to_string(rows) + " × " + std::to_string(width) + " of " + c10::toString(type));
  torch::manual_seed(rows * 1000 + width);
  const auto inputs = {torch::randn({rows, 16}), torch::randn({width, 16}) * 0.5, torch::randn({width})};
  std::vector<at::Tensor> leaves, numbers;
  for (const at::Tensor& each : inputs) {
    leaves.push_back(each.to(device, type, false, /*copy=*/true).requires_grad_());
    numbers.push_back(each.to(type).to(torch::kDouble, false, /*copy=*/true).requires_grad_());
  }
  const at::Tensor got = linear_gelu(leaves[0], leaves[1], leaves[2]);
  const at::Tensor expected = torch::gelu(torch::linear(numbers[0], numbers[1], numbers[2]), "tanh");
  const at::Tensor d_y = torch::randn({rows, width}).to(type);
  got.backward(d_y.to(device));
  expected.backward(d_y.to(torch::kDouble));
  EXPECT_LE(error_of(got, expected), tolerance);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_EQ(leaves[i].grad().scalar_type(), type);
    EXPECT_LE(error_of(leaves[i].grad(), numbers[i].grad()), tolerance) << "gradient " << i;
  }
}

}  // namespace mn::testing
