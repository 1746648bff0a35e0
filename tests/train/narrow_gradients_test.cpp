// Factors of float16 and bfloat16 gradients, which libtorch would round to 16 bits.
#include "optimizer_fixture.hpp"

namespace mn {
namespace {

class NarrowGradients : public OptimizerTest {};
INSTANTIATE_TEST_SUITE_P(Backends, NarrowGradients, kWays, way_name);

/// A rate of 1e-8 would be 0 in float16.
TEST_P(NarrowGradients, ClippingDoesNotRoundTheRate) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const auto zeros = [&](at::IntArrayRef shape) { return torch::zeros(shape, dtype).requires_grad_(); };
    const std::vector<at::Tensor> parameters = {zeros({100, 100}), zeros({}), parameter({1})};
    const auto optimizer = sgd(parameters);
    for (const double max_norm : {0.1, 0.01, 0.001}) {
      optimizer->zero_grad();
      (parameters[0] * 1000 + parameters[1].to(at::kFloat) * 0.001 + parameters[2] * 0.001).sum().backward();
      EXPECT_NEAR(clip_grad_norm(*optimizer, max_norm), 1e5, 100);
      const at::Tensor clipped = parameters[0].grad().to(at::kDouble);
      EXPECT_NEAR(clipped.norm().item<double>() / max_norm, 1, 0.01) << toString(dtype) << ", norm " << max_norm;
      optimizer->step();
    }
  }
}

/// A weight of 0.5019 would be 0.5 in bfloat16, and 1e-8 would be 0 in float16.
TEST_P(NarrowGradients, WeightsAreNotRounded) {
  const at::Tensor p = torch::zeros({128}, at::kBFloat16).requires_grad_();
  const at::Tensor values = 1 + torch::arange(128).to(at::kBFloat16) / 128;
  const auto optimizer = sgd({p});
  for (const double samples : {10'000.0, 5019.0, 5019.0}) {
    optimizer->zero_grad();
    (p * values).sum().backward();
    optimizer->reduce_gradients(rank_ == 0 ? samples : 5019);
    const double mean = p.grad().to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(mean / values.to(at::kDouble).mean().item<double>(), 1, 0.001) << samples << " samples";
    optimizer->step(rank_ == 0 ? samples : 5019);
  }
  const at::Tensor row = torch::full({4, 2}, 1000, at::kHalf).requires_grad_();
  const auto scaled = sgd({row});
  for (const bool is_sparse : {false, true}) {
    scaled->zero_grad();
    const at::Tensor gradient = torch::full({4, 2}, 1000, at::kHalf);
    row.mutable_grad() = is_sparse ? gradient.to_sparse(1) : gradient;
    scaled->scale_gradients(1e-8);
    EXPECT_NEAR(row.grad().to_dense()[0][0].item<double>(), 1e-5, 1e-7) << (is_sparse ? "sparse" : "dense");
  }
}

/// Weight decay of 1e-8 would be 0 in float16.
TEST(NarrowParameters, WeightDecayDoesNotRoundTheRate) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const at::Tensor p = torch::full({40}, 1000, dtype).requires_grad_();
    p.mutable_grad() = torch::zeros({40}, dtype);
    weight_decay(1e-8)({p});
    EXPECT_NEAR(p.grad()[0].item<double>(), 1e-5, 1e-7) << toString(dtype);
  }
}

}  // namespace
}  // namespace mn
