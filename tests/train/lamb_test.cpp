// LAMB against the published rule on plain numbers.
#include <cmath>
#include <sstream>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/lamb.hpp>

namespace mn {
namespace {

using torch::optim::AdamWOptions;

/// The published rule; what is not adapted is Adam's.
struct LambReference {
  std::vector<double> weight;
  std::vector<double> first = std::vector<double>(weight.size());
  std::vector<double> second = std::vector<double>(weight.size());
  int count = 0;

  void step(const std::vector<double>& gradient, const AdamWOptions& options, bool adapted) {
    const auto [beta1, beta2] = options.betas();
    ++count;
    double w = 0;
    double u = 0;
    std::vector<double> update(weight.size());
    for (std::size_t i = 0; i < weight.size(); ++i) {
      first[i] = beta1 * first[i] + (1 - beta1) * gradient[i];
      second[i] = beta2 * second[i] + (1 - beta2) * gradient[i] * gradient[i];
      update[i] = first[i] / (1 - std::pow(beta1, count)) /
                  (std::sqrt(second[i] / (1 - std::pow(beta2, count))) + options.eps());
      if (adapted) update[i] += options.weight_decay() * weight[i];
      w += weight[i] * weight[i];
      u += update[i] * update[i];
    }
    const double ratio = adapted && w > 0 && u > 0 ? std::sqrt(w / u) : 1;
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] -= options.lr() * ratio * update[i];
  }
};

std::vector<double> values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().flatten().to(at::kDouble);
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

TEST(LambTest, FollowsThePublishedRule) {
  torch::manual_seed(1);
  const std::vector<at::Tensor> parameters = {torch::randn({4}).requires_grad_(),      // a bias, before the weights
                                              torch::randn({3, 4}).requires_grad_(),   // with gradients of 0 at first
                                              torch::zeros({2, 2}).requires_grad_(),   // begins at 0
                                              torch::randn({2, 3}).requires_grad_()};  // without a gradient at first
  std::vector<LambReference> expected;
  for (const auto& parameter : parameters) expected.push_back({values_of(parameter)});
  Lamb lamb(parameters, AdamWOptions(0.05).betas({0.8, 0.95}).weight_decay(0.1));
  auto& options = static_cast<AdamWOptions&>(lamb.param_groups()[0].options());
  for (int k = 0; k < 6; ++k) {
    if (k == 3) options.lr(0.01);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (i == 3 && k < 2) continue;
      const at::Tensor gradient = torch::randn(parameters[i].sizes());
      parameters[i].mutable_grad() = i == 1 && k == 0 ? torch::zeros_like(gradient) : gradient;
      expected[i].step(values_of(parameters[i].grad()), options, parameters[i].dim() >= 2);
    }
    lamb.step();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<double> now = values_of(parameters[i]);
      for (std::size_t j = 0; j < now.size(); ++j) {
        EXPECT_NEAR(now[j], expected[i].weight[j], 1e-5) << "step " << k << " parameter " << i;
      }
    }
  }
}

TEST(LambTest, StateContinuesAfterSaveAndLoad) {
  const auto run = [](int save_after) {
    torch::manual_seed(2);
    at::Tensor weight = torch::randn({4, 4}).requires_grad_();
    auto lamb = std::make_unique<Lamb>(std::vector{weight}, AdamWOptions(0.3).weight_decay(0.1));
    for (int i = 0; i < 6; ++i) {
      if (i == save_after) {
        std::stringstream bytes;
        torch::save(*lamb, bytes);
        weight = weight.detach().clone().requires_grad_();
        lamb = std::make_unique<Lamb>(std::vector{weight}, AdamWOptions(7));
        torch::load(*lamb, bytes);
      }
      weight.mutable_grad() = torch::randn({4, 4});
      lamb->step();
    }
    return weight.detach().clone();
  };
  EXPECT_TRUE(run(-1).equal(run(3)));
}

TEST(LambTest, LacksAmsgrad) {
  const std::vector<at::Tensor> parameters = {torch::ones({2, 2}).requires_grad_()};
  EXPECT_THROW(Lamb(parameters, AdamWOptions(1).amsgrad(true)), ArgumentError);
}

}  // namespace
}  // namespace mn
