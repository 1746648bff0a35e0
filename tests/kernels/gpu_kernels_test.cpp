// Compares the results of the fused kernels on a GPU with libtorch's results in float64 on the CPU.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/kernels/layer_norm.hpp>
#include <mn/kernels/linear_gelu.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/kernels/reference_batch_norm.hpp"
#include "tests/kernels/reference_gelu.hpp"
#include "tests/kernels/reference_loss.hpp"
#include "tests/kernels/reference_norm.hpp"

namespace mn {
namespace {

using testing::error_of;

c10::Device device() {
  static const auto comm = create_communicator("pure_nccl");
  return comm->device();
}

void expect_loss(std::int64_t rows, std::int64_t vocabulary, at::ScalarType type, double tolerance) {
  SCOPED_TRACE(std::string(c10::toString(type)) + ", " + std::to_string(vocabulary) + " logits");
  torch::manual_seed(vocabulary);
  const at::Tensor logits = (torch::randn({rows, vocabulary}) * 4).to(type);
  const at::Tensor targets = torch::randint(vocabulary, {rows}, torch::kLong);
  for (TokenLossOptions options : testing::loss_options(rows)) {
    const at::Tensor numbers = logits.to(torch::kDouble).requires_grad_();
    const at::Tensor expected = testing::reference_loss(numbers, targets, options);
    (expected.sum() * 3).backward();
    const at::Tensor leaf = logits.to(device()).requires_grad_();
    options.overwrite_logits = true;
    if (options.weights.defined()) options.weights = options.weights.to(device());
    const at::Tensor loss = token_loss(leaf * 1, targets.to(device()), options);
    (loss.sum() * 3).backward();
    EXPECT_LE(error_of(loss, expected), 1e-5);
    EXPECT_LE(error_of(leaf.grad(), numbers.grad()), tolerance);
  }
}

TEST(GpuKernels, TokenLoss) {  // tolerances: the gradient is rounded, multiplied by 3 and rounded again
  for (const std::int64_t vocabulary : {5, 515, 2051}) {
    expect_loss(9, vocabulary, at::kBFloat16, 0.008);
    expect_loss(9, vocabulary, at::kHalf, 0.001);
    expect_loss(9, vocabulary, at::kFloat, 1e-5);
  }
  expect_loss(5, 50257, at::kBFloat16, 0.008);   // as GPT-2's, with rows at odd addresses
  expect_loss(5, 150001, at::kBFloat16, 0.008);  // more than a block's shared memory
}

void expect_norm(std::int64_t rows, std::int64_t width, at::ScalarType stream, at::ScalarType branch,
                 double tolerance) {
  SCOPED_TRACE(std::to_string(rows) + " × " + std::to_string(width) + " of " + c10::toString(branch));
  for (const bool with_branch : {true, false}) {
    testing::NormInput input = testing::norm_input(rows, width, stream, with_branch ? branch : stream);
    if (!with_branch) input.branch = at::Tensor();
    const auto expected = testing::reference_norm(input, 1e-5, true);
    const auto leaf = [](const at::Tensor& tensor) { return tensor.to(device()).requires_grad_(); };
    const at::Tensor x = leaf(input.x), weight = leaf(input.weight), bias = leaf(input.bias);
    const at::Tensor added = with_branch ? leaf(input.branch) : at::Tensor();
    const ResidualNorm got = layer_norm_residual(x, added, weight, bias);
    ((got.normalized * input.d_normalized.to(device())).sum() + (got.sum * input.d_sum.to(device())).sum()).backward();
    EXPECT_LE(error_of(got.normalized, expected.normalized), tolerance);
    EXPECT_LE(error_of(x.grad(), expected.d_x), tolerance);
    if (with_branch) {
      EXPECT_LE(error_of(added.grad(), expected.d_x), tolerance);
    }
    EXPECT_LE(error_of(weight.grad(), expected.d_weight), tolerance);
    EXPECT_LE(error_of(bias.grad(), expected.d_bias), tolerance);
  }
}

TEST(GpuKernels, LayerNorm) {
  for (const std::int64_t width : {768, 33, 1500}) {
    expect_norm(150, width, at::kFloat, at::kBFloat16, 0.006);
    expect_norm(3, width, at::kFloat, at::kFloat, 1e-5);
    expect_norm(70, width, at::kBFloat16, at::kBFloat16, 0.02);
  }
}

void expect_batch_norm(const std::vector<std::int64_t>& shape, at::ScalarType type, bool last, double tolerance) {
  SCOPED_TRACE(std::string(c10::toString(type)) + ", " + std::to_string(shape[1]) + " channels");
  for (const bool with_added : {true, false}) {
    testing::BatchNormInput input = testing::batch_norm_input(shape, type, last);
    if (!with_added) input.added = at::Tensor();
    const auto expected = testing::reference_batch_norm(input);
    const auto got = testing::run_batch_norm_operators(input, device());
    EXPECT_LE(error_of(got.y, expected.y), tolerance);
    EXPECT_LE(error_of(got.d_x, expected.d_x), tolerance);
    EXPECT_LE(error_of(got.d_weight, expected.d_weight), tolerance);
    EXPECT_LE(error_of(got.d_bias, expected.d_bias), tolerance);
    if (with_added) {
      EXPECT_LE(error_of(got.d_added, expected.d_added), tolerance);
    }
  }
}

TEST(GpuKernels, BatchNorm) {
  for (const bool last : {true, false}) {
    expect_batch_norm({16, 256, 14, 14}, at::kBFloat16, last, 0.01);
    expect_batch_norm({3, 70, 9, 7}, at::kHalf, last, 0.001);
    expect_batch_norm({9, 3, 40, 31}, at::kFloat, last, 1e-5);
  }
}

TEST(GpuKernels, LinearGelu) {
  for (const std::int64_t width : {3072, 33}) {
    testing::expect_linear_gelu(device(), 150, width, at::kBFloat16, 0.02);
    testing::expect_linear_gelu(device(), 5, width, at::kFloat, 1e-5);
  }
}

}  // namespace
}  // namespace mn
