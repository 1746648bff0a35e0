// Compares layer_norm_residual() and rms_norm_residual() with libtorch's norms in float64.
#include <mn/kernels/layer_norm.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/tensor/autocast.hpp>

#include "tests/kernels/reference_loss.hpp"
#include "tests/kernels/reference_norm.hpp"

namespace mn {
namespace {

using testing::error_of;
using testing::NormInput;

ResidualNorm norm_of(const NormInput& in, bool centered, double eps) {
  return centered ? layer_norm_residual(in.x, in.branch, in.weight, in.bias, eps)
                  : rms_norm_residual(in.x, in.branch, in.weight, eps);
}

/// Compares results and gradients with the reference. `tolerance` suits the rounding of the branch's type.
void expect_reference(const NormInput& input, bool centered, double tolerance) {
  const auto expected = testing::reference_norm(input, 0.01, centered);
  NormInput leaves = input;
  for (auto member : {&NormInput::x, &NormInput::branch, &NormInput::weight, &NormInput::bias})
    if ((leaves.*member).defined()) leaves.*member = (input.*member).clone().requires_grad_();
  const ResidualNorm got = norm_of(leaves, centered, 0.01);
  EXPECT_EQ(got.sum.scalar_type(), input.x.scalar_type());
  EXPECT_EQ(got.normalized.scalar_type(), input.d_normalized.scalar_type());
  at::Tensor total = (got.normalized * input.d_normalized).sum();
  if (input.d_sum.defined()) total = total + (got.sum * input.d_sum).sum();
  total.backward();
  EXPECT_LE(error_of(got.sum, expected.sum), input.x.scalar_type() == at::kFloat ? 1e-6 : tolerance);
  EXPECT_LE(error_of(got.normalized, expected.normalized), tolerance);
  EXPECT_LE(error_of(leaves.x.grad(), expected.d_x), tolerance);
  if (input.branch.defined()) {
    EXPECT_LE(error_of(leaves.branch.grad(), expected.d_x), tolerance);
  }
  EXPECT_LE(error_of(leaves.weight.grad(), expected.d_weight), tolerance);
  if (input.bias.defined()) {
    EXPECT_LE(error_of(leaves.bias.grad(), expected.d_bias), tolerance);
  }
}

struct Types {
  at::ScalarType stream, branch;
  double tolerance;
};
const std::vector<Types> kTypes = {{at::kDouble, at::kDouble, 1e-12},    {at::kFloat, at::kFloat, 3e-6},
                                   {at::kFloat, at::kBFloat16, 0.006},   {at::kFloat, at::kHalf, 0.001},
                                   {at::kBFloat16, at::kBFloat16, 0.02}, {at::kHalf, at::kHalf, 0.003}};

TEST(LayerNorm, EveryTypeAndSize) {
  for (const Types& types : kTypes) {
    for (const auto& [rows, width] : {std::pair{3, 7}, {5, 64}, {150, 33}}) {
      for (const bool centered : {true, false}) {
        SCOPED_TRACE(std::string(c10::toString(types.stream)) + ", " + c10::toString(types.branch) + ", " +
                     std::to_string(width) + (centered ? " centered" : ""));
        NormInput input = testing::norm_input(rows, width, types.stream, types.branch);
        if (!centered) input.bias = at::Tensor();
        expect_reference(input, centered, types.tolerance);
        input.d_sum = at::Tensor();
        expect_reference(input, centered, types.tolerance);
      }
    }
  }
}

TEST(LayerNorm, WithoutABranchTheSumIsTheStream) {
  NormInput input = testing::norm_input(5, 12, at::kFloat, at::kFloat);
  input.branch = input.bias = at::Tensor();
  expect_reference(input, true, 3e-6);
  expect_reference(input, false, 3e-6);
  const at::Tensor x = input.x.clone().requires_grad_();
  const ResidualNorm got = layer_norm_residual(x, {}, input.weight, {});
  EXPECT_EQ(got.sum.data_ptr(), x.data_ptr());
  (got.sum * 3).sum().backward();  // nobody uses the norm
  EXPECT_TRUE(x.grad().eq(3).all().item<bool>());
}

TEST(LayerNorm, ShapesStridesAndNoRows) {
  const NormInput input = testing::norm_input(6, 10, at::kFloat, at::kFloat);
  const ResidualNorm rows = layer_norm_residual(input.x, input.branch, input.weight, input.bias);
  const at::Tensor strided = input.x.t().contiguous().t().requires_grad_();
  const ResidualNorm same = layer_norm_residual(strided.view({2, 3, 10}), input.branch.view({2, 3, 10}),
                                                torch::stack({input.weight, input.bias}, 1).select(1, 0), input.bias);
  EXPECT_TRUE(same.normalized.view({6, 10}).equal(rows.normalized));
  EXPECT_TRUE(same.sum.view({6, 10}).equal(rows.sum));
  same.normalized.transpose(0, 1).square().sum().backward();
  EXPECT_EQ(strided.grad().sizes(), strided.sizes());
  const at::Tensor none = torch::empty({0, 10}).requires_grad_(), weight = input.weight.clone().requires_grad_();
  const ResidualNorm of_none = layer_norm_residual(none, none * 1, weight, input.bias);
  (of_none.normalized.sum() + of_none.sum.sum()).backward();
  EXPECT_EQ(of_none.normalized.sizes(), none.sizes());
  EXPECT_TRUE(weight.grad().eq(0).all().item<bool>());
}

TEST(LayerNorm, AutocastChoosesTheType) {
  const NormInput input = testing::norm_input(4, 8, at::kFloat, at::kFloat);
  const AutocastScope autocast(at::kBFloat16, Device{});
  const at::Tensor x = input.x.clone().requires_grad_(), branch = input.branch.to(at::kBFloat16).requires_grad_();
  const ResidualNorm got = layer_norm_residual(x, branch, input.weight, input.bias);
  EXPECT_EQ(got.normalized.scalar_type(), at::kBFloat16);
  EXPECT_EQ(got.sum.scalar_type(), at::kFloat);
  got.normalized.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(branch.grad().scalar_type(), at::kBFloat16);
  EXPECT_EQ(layer_norm_residual(x, {}, input.weight, input.bias).normalized.scalar_type(), at::kBFloat16);
  EXPECT_EQ(layer_norm_residual(x, input.branch, input.weight, input.bias).normalized.scalar_type(), at::kBFloat16);
  const at::Tensor half = input.x.to(at::kHalf);  // a pair of types that no kernel has
  EXPECT_EQ(layer_norm_residual(half, branch, input.weight, input.bias).sum.scalar_type(), at::kHalf);
}

TEST(LayerNorm, NansStayInTheirRows) {
  const NormInput input = testing::norm_input(3, 20, at::kFloat, at::kFloat);
  input.x[1][4] = NAN;
  input.x[2][19] = INFINITY;
  const ResidualNorm got = layer_norm_residual(input.x, input.branch, input.weight, input.bias);
  EXPECT_TRUE(got.normalized.isnan().all(1).equal(torch::tensor({false, true, true})) ||
              got.normalized.isfinite().all(1).equal(torch::tensor({true, false, false})));
  EXPECT_EQ(error_of(got.sum, input.x.to(torch::kDouble) + input.branch) < 1e-6, true);
}

TEST(LayerNorm, RejectsWrongArguments) {
  const at::Tensor x = torch::randn({4, 8}), weight = torch::ones({8});
  const auto message = [&](const at::Tensor& stream, const at::Tensor& branch,
                           const at::Tensor& of_weight) -> std::string {
    try {
      static_cast<void>(layer_norm_residual(stream, branch, of_weight, {}));
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message(x, x.narrow(1, 0, 7), weight), HasSubstr("a branch [4, 7]"));
  EXPECT_THAT(message(x, {}, torch::ones({7})), HasSubstr("[7]"));
  EXPECT_THAT(message(x.to(torch::kLong), {}, weight), HasSubstr("not Long"));
  EXPECT_THAT(message(torch::empty({4, 0}), {}, torch::empty({0})), HasSubstr("empty in its last dimension"));
  const at::Tensor leaf = x.clone().requires_grad_();
  const at::Tensor loss = layer_norm_residual(leaf, {}, weight, {}).normalized.square().sum();
  EXPECT_THROW(loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true), ArgumentError);
}

}  // namespace
}  // namespace mn
