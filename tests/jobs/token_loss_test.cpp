// jobs/gpt's loss beside torch's cross_entropy in float32.
#include "gpt/loss.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace mn::jobs {
namespace {

struct Case {
  at::ScalarType type;
  std::int64_t elements;  // of the rows that are computed at a time; a row has 7
  double tolerance;
};

class TokenLossTest : public testing::TestWithParam<Case> {};

TEST_P(TokenLossTest, LossAndGradientAreThoseOfAllRowsTogether) {
  torch::manual_seed(1);
  const at::Tensor numbers = torch::randn({10, 7}) * 4;
  const at::Tensor targets = torch::randint(7, {10}, torch::kLong);
  const at::Tensor expected_of = numbers.to(GetParam().type).to(torch::kFloat).detach().requires_grad_();
  const at::Tensor expected = torch::nn::functional::cross_entropy(expected_of, targets);
  (expected * 1024).backward();
  const at::Tensor logits = numbers.to(GetParam().type).detach().requires_grad_();
  const at::Tensor loss = token_loss(logits, targets, GetParam().elements);
  (loss * 1024).backward();
  EXPECT_EQ(loss.scalar_type(), torch::kFloat);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-6);
  EXPECT_EQ(logits.grad().scalar_type(), GetParam().type);
  const at::Tensor difference = (logits.grad().to(torch::kFloat) - expected_of.grad()).abs().max();
  EXPECT_LE(difference.item<double>(), GetParam().tolerance * expected_of.grad().abs().max().item<double>());
}

INSTANTIATE_TEST_SUITE_P(All, TokenLossTest,
                         testing::Values(Case{torch::kFloat, 1, 1e-6}, Case{torch::kFloat, 21, 1e-6},
                                         Case{torch::kFloat, 1 << 20, 1e-6}, Case{torch::kBFloat16, 21, 0.01},
                                         Case{torch::kHalf, 21, 0.002}));

TEST(TokenLossWithoutGradient, IsTheSame) {
  const at::Tensor logits = torch::randn({5, 3}).requires_grad_();
  const at::Tensor targets = torch::tensor({0, 2, 1, 1, 0}, torch::kLong);
  const at::Tensor with = token_loss(logits, targets);
  const torch::NoGradGuard no_grad;
  const at::Tensor without = token_loss(logits, targets);
  EXPECT_FALSE(without.requires_grad());
  EXPECT_EQ(with.item<double>(), without.item<double>());
}

}  // namespace
}  // namespace mn::jobs
