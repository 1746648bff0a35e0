// Compares linear_gelu() with libtorch in float64: on the CPU, and the GPU's kernel on the host, one thread after the
// other.
#include <mn/kernels/linear_gelu.hpp>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/kernels/gelu_backward_tile.hpp>
#include <mn/tensor/autocast.hpp>

#include "tests/kernels/reference_gelu.hpp"
#include "tests/kernels/serial_team.hpp"

namespace mn {
namespace {

using testing::error_of;
using testing::SerialTeam;

TEST(LinearGelu, EveryTypeAndSize) {
  for (const auto& [rows, width] : {std::pair{3, 7}, {5, 64}, {150, 1033}}) {
    testing::expect_linear_gelu(torch::kCPU, rows, width, at::kDouble, 1e-12);
    testing::expect_linear_gelu(torch::kCPU, rows, width, at::kFloat, 3e-6);
    testing::expect_linear_gelu(torch::kCPU, rows, width, at::kBFloat16, 0.02);
    testing::expect_linear_gelu(torch::kCPU, rows, width, at::kHalf, 0.003);
  }
}

/// Runs all blocks of the GPU's kernel, and compares dx and the sum of the partial sums with libtorch's.
template <class T>
void expect_tiles(std::int64_t rows, std::int64_t width, bool aligned, at::ScalarType type, double tolerance) {
  SCOPED_TRACE(std::to_string(rows) + " × " + std::to_string(width) + " of " + c10::toString(type));
  torch::manual_seed(width);
  const at::Tensor x = (torch::randn({rows, width}) * 3).to(type), d_y = torch::randn({rows, width}).to(type);
  const at::Tensor d_x = torch::full_like(x, NAN);
  constexpr std::int64_t kParts = 3;
  const at::ScalarType real = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor partials = torch::full({kParts, width}, NAN, real);
  const kernels::GeluCall call{.rows = rows,
                               .width = width,
                               .aligned = aligned,
                               .x = x.const_data_ptr(),
                               .d_y = d_y.const_data_ptr(),
                               .d_x = d_x.data_ptr(),
                               .parts = kParts,
                               .partials = partials.data_ptr()};
  SerialTeam team(kernels::kTileThreads * kernels::kTileRows);
  std::vector<Real<T>> shared(kernels::kTileWidth * kernels::kTileRows);
  for (std::int64_t tile = 0; tile * kernels::kTileWidth < width; ++tile)
    for (std::int64_t part = 0; part < kParts; ++part)
      kernels::gelu_backward_tile<T>(team, call, tile, part, shared.data());
  const at::Tensor expected = torch::gelu_backward(d_y.to(torch::kDouble), x.to(torch::kDouble), "tanh");
  EXPECT_LE(error_of(d_x, expected), tolerance);
  EXPECT_LE(error_of(partials.sum(0), expected.sum(0)), type == at::kDouble ? 1e-12 : 1e-5);
}

TEST(GeluTiles, EqualTheReference) {
  for (const std::int64_t rows : {1, 61}) {
    expect_tiles<double>(rows, 132, true, at::kDouble, 1e-13);
    expect_tiles<BFloat16>(rows, 256, true, at::kBFloat16, 0.004);
    expect_tiles<float>(rows, 131, false, at::kFloat, 1e-6);
    expect_tiles<Float16>(rows, 3, false, at::kHalf, 0.0006);
  }
}

TEST(LinearGelu, ShapesAndNoRows) {
  const at::Tensor x = torch::randn({4, 6, 16}), weight = torch::randn({8, 16});
  const at::Tensor bias = torch::randn({8}).requires_grad_(), leaf = x.clone().requires_grad_();
  const at::Tensor got = linear_gelu(leaf, weight, bias);
  EXPECT_EQ(got.sizes(), at::IntArrayRef({4, 6, 8}));
  got.transpose(0, 1).square().sum().backward();
  EXPECT_EQ(leaf.grad().sizes(), x.sizes());
  EXPECT_FALSE(linear_gelu(x, weight, bias.detach()).requires_grad());
  bias.mutable_grad() = at::Tensor();
  linear_gelu(torch::empty({0, 16}), weight, bias).sum().backward();
  EXPECT_TRUE(bias.grad().eq(0).all().item<bool>());
}

/// In autocast the matrix product has 16 bits, but the bias keeps its type, and its gradient is summed in float32.
TEST(LinearGelu, AutocastLeavesTheBiasItsType) {
  torch::manual_seed(1);
  const at::Tensor x = torch::randn({200, 16}), weight = torch::randn({8, 16});
  const at::Tensor bias = torch::randn({8}).requires_grad_();
  const AutocastScope autocast(at::kBFloat16, Device{});
  const at::Tensor got = linear_gelu(x, weight, bias);
  EXPECT_EQ(got.scalar_type(), at::kBFloat16);
  got.sum().backward();
  const at::Tensor h = torch::linear(x, weight, bias.detach()).to(torch::kDouble);
  EXPECT_EQ(bias.grad().scalar_type(), at::kFloat);
  EXPECT_LE(error_of(bias.grad(), torch::gelu_backward(torch::ones_like(h), h, "tanh").sum(0)), 1e-5);
}

TEST(LinearGelu, RejectsWrongArguments) {
  const at::Tensor x = torch::randn({4, 16}).requires_grad_(), weight = torch::randn({8, 16}), bias = torch::ones({8});
  EXPECT_THROW(static_cast<void>(linear_gelu(torch::ones({4, 16}, torch::kLong), weight, bias)), ArgumentError);
  const at::Tensor loss = linear_gelu(x, weight, bias).square().sum();
  EXPECT_THROW(loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true), ArgumentError);
}

}  // namespace
}  // namespace mn
