// Compares token_loss() with libtorch's cross_entropy in float64.
#include <mn/kernels/token_loss.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>

#include "tests/kernels/reference_loss.hpp"

namespace mn {
namespace {

using testing::error_of;
using testing::loss_options;
using testing::reference_loss;

struct Kind {
  at::ScalarType type;
  double of_loss, of_gradient;  // tolerances
};
const std::vector<Kind> kKinds = {
    {at::kDouble, 1e-13, 1e-13}, {at::kFloat, 1e-6, 2e-6}, {at::kBFloat16, 1e-6, 0.004}, {at::kHalf, 1e-6, 0.0006}};

/// Compares the loss of `logits`, multiplied by `factor`, and its gradient with the reference.
void expect_reference(const at::Tensor& logits, const at::Tensor& targets, const TokenLossOptions& options,
                      const Kind& kind, double factor = 1) {
  const at::Tensor numbers = logits.detach().to(torch::kDouble).contiguous().requires_grad_();
  const at::Tensor expected = reference_loss(numbers, targets, options);
  (expected.sum() * factor).backward();
  const at::Tensor leaf = logits.detach().clone().requires_grad_();
  const at::Tensor loss = token_loss(options.overwrite_logits ? leaf * 1 : leaf, targets, options);
  (loss.sum() * factor).backward();
  EXPECT_EQ(loss.scalar_type(), kind.type == at::kDouble ? at::kDouble : at::kFloat);
  EXPECT_EQ(leaf.grad().scalar_type(), kind.type);
  EXPECT_LE(error_of(loss, expected), kind.of_loss);
  EXPECT_LE(error_of(leaf.grad(), numbers.grad()), kind.of_gradient);
}

TEST(TokenLoss, EveryTypeSizeAndOption) {
  torch::manual_seed(1);
  for (const Kind& kind : kKinds) {
    for (const auto& [rows, vocabulary] : {std::pair{4, 16}, {3, 700}}) {
      SCOPED_TRACE(std::string(c10::toString(kind.type)) + " " + std::to_string(vocabulary));
      const at::Tensor logits = (torch::randn({rows, vocabulary}) * 4).to(kind.type);
      const at::Tensor targets = torch::randint(vocabulary, {rows}, torch::kLong);
      targets[0] = vocabulary - 1;
      for (TokenLossOptions options : loss_options(rows)) {
        if (rows < 3 && (options.weights.defined() || options.ignore_index >= 0)) continue;
        expect_reference(logits, targets, options, kind);
        options.overwrite_logits = true;
        expect_reference(logits, targets, options, kind, 1024);
      }
    }
  }
}

TEST(TokenLoss, SmallGradientsOfHalvesDoNotUnderflowBeforeTheyAreScaled) {
  const at::Tensor logits = (torch::randn({3000, 8}) * 4).to(torch::kHalf);
  expect_reference(logits, torch::randint(8, {3000}, torch::kLong), {.overwrite_logits = true}, kKinds[3], 65536);
}

TEST(TokenLoss, StridesAndShapes) {
  const at::Tensor wide = torch::randn({6, 20}), targets = torch::randint(9, {6}, torch::kLong);
  for (const at::Tensor& logits :
       {wide.narrow(1, 3, 9), wide.slice(1, 0, 18, 2), wide.narrow(1, 0, 9).t().contiguous().t()}) {
    for (const bool overwrite : {false, true}) {
      const at::Tensor leaf = logits.detach().requires_grad_();
      token_loss(leaf * 1, targets, {.overwrite_logits = overwrite}).backward();
      const at::Tensor numbers = logits.to(torch::kDouble).contiguous().requires_grad_();
      reference_loss(numbers, targets, {}).backward();
      EXPECT_LE(error_of(leaf.grad(), numbers.grad()), 2e-6);
      const at::Tensor again = logits.detach().clone().requires_grad_();
      token_loss(again, targets).backward();
      EXPECT_LE(error_of(again.grad(), numbers.grad()), 2e-6);
    }
  }
  const at::Tensor narrow = (wide.detach().requires_grad_() * 1).narrow(1, 3, 9);
  EXPECT_NEAR(token_loss(narrow, targets, {.overwrite_logits = true}).item<double>(),
              reference_loss(wide.narrow(1, 3, 9).to(torch::kDouble), targets, {}).item<double>(), 1e-6);
  // The logits are a sequence of minibatches, then a single row; the targets are 32-bit integers.
  const at::Tensor sequence = torch::randn({2, 3, 5}), words = torch::randint(5, {2, 3}, torch::kInt);
  const at::Tensor losses = token_loss(sequence, words, {.reduction = TokenLossReduction::kNone});
  EXPECT_EQ(losses.sizes(), words.sizes());
  EXPECT_NEAR(losses.mean().item<double>(), token_loss(sequence, words).item<double>(), 1e-6);
  EXPECT_NEAR(losses[1][2].item<double>(), token_loss(sequence[1][2], words[1][2]).item<double>(), 1e-6);
}

TEST(TokenLoss, WithoutRowsThatCountIsZero) {
  for (const auto reduction : {TokenLossReduction::kMean, TokenLossReduction::kSum}) {
    const at::Tensor logits = torch::full({2, 3}, NAN).requires_grad_();
    const at::Tensor loss = token_loss(logits, torch::full({2}, -100, torch::kLong), {.reduction = reduction});
    loss.backward();
    EXPECT_EQ(loss.item<double>(), 0);
    EXPECT_TRUE(logits.grad().eq(0).all().item<bool>());
    const at::Tensor none = torch::randn({0, 3}).requires_grad_();
    const at::Tensor of_none = token_loss(none, torch::empty({0}, torch::kLong), {.reduction = reduction});
    of_none.backward();
    EXPECT_EQ(of_none.item<double>(), 0);
    EXPECT_EQ(none.grad().sizes(), none.sizes());
  }
}

TEST(TokenLoss, InfinitiesAndNansAreThoseOfLibtorch) {
  const double inf = INFINITY, nan = NAN;
  const at::Tensor logits = torch::tensor({{1.0, 2.0, -inf},
                                           {1.0, -inf, 2.0},
                                           {-inf, -inf, -inf},
                                           {inf, 1.0, 2.0},
                                           {1.0, nan, 2.0},
                                           {nan, nan, nan},
                                           {-inf, 3.0, -inf},
                                           {200.0, -200.0, 0.0}});
  const at::Tensor targets = torch::tensor({0, 1, 2, 0, 0, 1, 1, 1}, torch::kLong);
  for (const double smoothing : {0.0, 0.1}) {
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(c10::toString(kind.type));
      expect_reference(logits.to(kind.type), targets,
                       {.label_smoothing = smoothing, .reduction = TokenLossReduction::kNone}, kind);
    }
  }
}

TEST(TokenLoss, WithoutGradientsIsTheSameAndKeepsTheLogits) {
  const at::Tensor logits = torch::randn({5, 700}).requires_grad_();
  const at::Tensor targets = torch::randint(700, {5}, torch::kLong), before = logits.detach().clone();
  const at::Tensor with = token_loss(logits, targets);
  const torch::NoGradGuard no_grad;
  const at::Tensor without = token_loss(logits, targets, {.overwrite_logits = true});
  EXPECT_FALSE(without.requires_grad());
  EXPECT_EQ(with.item<double>(), without.item<double>());
  EXPECT_TRUE(logits.equal(before));
}

TEST(TokenLoss, OverwritesOnlyWhereThatIsAskedFor) {
  const at::Tensor targets = torch::randint(7, {4}, torch::kLong);
  const at::Tensor logits = torch::randn({4, 7}).requires_grad_() * 1;
  const at::Tensor before = logits.detach().clone();
  static_cast<void>(token_loss(logits, targets));
  EXPECT_TRUE(logits.equal(before));
  const at::Tensor squared = logits.square();  // square() saves the logits for its backward
  logits.retain_grad();
  token_loss(logits, targets, {.overwrite_logits = true}).backward();
  EXPECT_TRUE(logits.equal(logits.grad()));
  EXPECT_THROW(squared.sum().backward(), c10::Error);
}

TEST(TokenLoss, RejectsWrongArguments) {
  const at::Tensor logits = torch::randn({4, 7}), targets = torch::randint(7, {4}, torch::kLong);
  const auto message = [](const auto& call) -> std::string {
    try {
      static_cast<void>(call());
    } catch (const ArgumentError& error) {
      return error.what();
    }
    return "";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message([&] { return token_loss(logits, targets.narrow(0, 0, 3)); }), HasSubstr("[4, 7]"));
  EXPECT_THAT(message([&] { return token_loss(logits, logits.select(1, 0)); }), HasSubstr("integers, not Float"));
  EXPECT_THAT(message([&] { return token_loss(targets.unsqueeze(1), targets); }), HasSubstr("not Long"));
  EXPECT_THAT(message([&] { return token_loss(logits, targets, {.weights = torch::ones({3})}); }), HasSubstr("[3]"));
  EXPECT_THAT(message([&] { return token_loss(logits, targets, {.label_smoothing = 1.5}); }), HasSubstr("1.5"));
  EXPECT_THAT(message([&] { return token_loss(logits, targets, {.label_smoothing = NAN}); }), HasSubstr("nan"));
  EXPECT_THAT(message([&] {
                return token_loss(logits, torch::tensor({0, 1, 7, 2}, torch::kLong));
              }),
              HasSubstr("target 7 of row 2 is none of 7 classes"));
  const at::Tensor leaf = logits.clone().requires_grad_();
  EXPECT_THAT(message([&] { return token_loss(leaf, targets, {.overwrite_logits = true}); }), HasSubstr("leaf"));
  const at::Tensor loss = token_loss(leaf, targets);
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THAT(message([&] { return loss.backward(), loss; }), HasSubstr("only once"));
}

}  // namespace
}  // namespace mn
