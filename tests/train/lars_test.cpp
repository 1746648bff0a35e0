// LARS against the published rule on plain numbers.
#include <cmath>
#include <sstream>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/lars.hpp>

namespace mn {
namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;

/// The published rule on plain numbers.
struct Reference {
  std::vector<double> weight, momentum;
  void step(const std::vector<double>& gradient, double lr, double m, double decay, double trust, bool adapted) {
    const auto norm = [](const std::vector<double>& v) {
      double sum = 0;
      for (const double x : v) sum += x * x;
      return std::sqrt(sum);
    };
    const double w = norm(weight);
    const double g = norm(gradient);
    const double ratio = !adapted || w == 0 || g == 0 ? 1 : trust * w / (g + decay * w);
    if (!adapted) decay = 0;
    momentum.resize(weight.size());
    for (std::size_t i = 0; i < weight.size(); ++i) {
      momentum[i] = m * momentum[i] + lr * ratio * (gradient[i] + decay * weight[i]);
      weight[i] -= momentum[i];
    }
  }
};

std::vector<double> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().flatten().to(at::kDouble);
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

TEST(Lars, FollowsThePublishedRule) {
  torch::manual_seed(1);
  const at::Tensor weight = torch::randn({3, 4}).requires_grad_();
  const at::Tensor bias = torch::randn({4}).requires_grad_();
  const at::Tensor zeros = torch::zeros({2, 2}).requires_grad_();
  Reference weights{numbers(weight), {}};
  Reference biases{numbers(bias), {}};
  Reference from_zero{numbers(zeros), {}};
  Lars lars({weight, bias, zeros}, SGDOptions(0.5).momentum(0.9).weight_decay(0.01), 0.02);
  for (int i = 0; i < 5; ++i) {
    weight.mutable_grad() = i == 3 ? torch::zeros({3, 4}) : torch::randn({3, 4});
    bias.mutable_grad() = torch::randn({4});
    zeros.mutable_grad() = torch::randn({2, 2});
    const double lr = i < 2 ? 0.5 : 0.1;
    lars.param_groups()[0].options().set_lr(lr);
    weights.step(numbers(weight.grad()), lr, 0.9, 0.01, 0.02, true);
    biases.step(numbers(bias.grad()), lr, 0.9, 0.01, 0.02, false);
    from_zero.step(numbers(zeros.grad()), lr, 0.9, 0.01, 0.02, true);
    lars.step();
    for (std::size_t k = 0; k < 12; ++k) EXPECT_NEAR(numbers(weight)[k], weights.weight[k], 1e-5) << i;
    for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(numbers(bias)[k], biases.weight[k], 1e-5) << i;
    for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(numbers(zeros)[k], from_zero.weight[k], 1e-5) << i;
  }
}

TEST(Lars, UpdateDoesNotDependOnTheGradientsScale) {
  const auto updated = [](double scale) {
    const at::Tensor weight = torch::arange(1, 7, torch::kFloat).view({2, 3}).clone().requires_grad_();
    weight.mutable_grad() = torch::ones({2, 3}) * scale;
    Lars lars({weight}, SGDOptions(1), 0.1);
    lars.step();
    return weight.detach().clone();
  };
  EXPECT_TRUE(updated(1).allclose(updated(1000), 1e-5, 1e-6));
}

TEST(Lars, LeavesParametersWithoutGradientAlone) {
  const at::Tensor a = torch::ones({2, 2}).requires_grad_();
  const at::Tensor b = torch::ones({2, 2}).requires_grad_();
  a.mutable_grad() = torch::ones({2, 2});
  Lars lars({a, b}, SGDOptions(1).weight_decay(1));
  lars.step();
  EXPECT_FALSE(a.equal(torch::ones({2, 2})));
  EXPECT_TRUE(b.equal(torch::ones({2, 2})));
}

TEST(Lars, StateContinuesAfterSaveAndLoad) {
  const auto run = [](int save_after) {
    torch::manual_seed(2);
    at::Tensor weight = torch::randn({4, 4}).requires_grad_();
    auto lars = std::make_unique<Lars>(std::vector{weight}, SGDOptions(0.3).momentum(0.9).weight_decay(0.1));
    for (int i = 0; i < 6; ++i) {
      if (i == save_after) {
        std::stringstream bytes;
        torch::save(*lars, bytes);
        weight = weight.detach().clone().requires_grad_();
        lars = std::make_unique<Lars>(std::vector{weight}, SGDOptions(7));
        torch::load(*lars, bytes);
      }
      weight.mutable_grad() = torch::full({4, 4}, i + 1.0);
      lars->step();
    }
    return weight.detach().clone();
  };
  EXPECT_TRUE(run(-1).equal(run(3)));
}

TEST(Lars, OptionsItLacksAreErrors) {
  const std::vector<at::Tensor> parameters = {torch::ones({2, 2}).requires_grad_()};
  EXPECT_THROW(Lars(parameters, SGDOptions(1).momentum(0.9).nesterov(true)), ArgumentError);
  EXPECT_THROW(Lars(parameters, SGDOptions(1).momentum(0.9).dampening(0.1)), ArgumentError);
  EXPECT_THROW(Lars(parameters, SGDOptions(1), 0), ArgumentError);
}

}  // namespace
}  // namespace mn
