// SGD in one kernel against torch's.
#include <sstream>

#include <mn/core/error.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/optimizers/lamb.hpp>
#include <mn/optimizers/lars.hpp>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

using torch::optim::SGDOptions;

class FusedSgdTest : public testing::TestWithParam<SGDOptions> {};

TEST_P(FusedSgdTest, StepsAsTorchsAndTakesItsState) {
  Net a;
  Net b;
  torch::optim::SGD theirs(a.parameters(), GetParam());
  FusedSgd ours(b.parameters(), GetParam());
  const auto run = [&](Net& net, torch::optim::Optimizer& optimizer, int k) {
    torch::manual_seed(k);
    net.zero_grad();
    net.forward(torch::randn({4, 5}), k != 0).pow(2).sum().backward();  // the second layer begins later
    optimizer.step();
  };
  for (int k = 0; k < 8; ++k) {
    run(a, theirs, k);
    run(b, ours, k);
    for (std::size_t i = 0; i < a.parameters().size(); ++i) {
      EXPECT_TRUE(torch::allclose(a.parameters()[i], b.parameters()[i], 1e-5, 1e-6))
          << "step " << k << " parameter " << i;
    }
    if (k != 4) continue;
    std::stringstream saved;
    torch::save(theirs, saved);
    torch::load(ours, saved);
  }
}

INSTANTIATE_TEST_SUITE_P(Options, FusedSgdTest,
                         testing::Values(SGDOptions(0.05), SGDOptions(0.05).weight_decay(0.1),
                                         SGDOptions(0.05).momentum(0.9).weight_decay(0.1),
                                         SGDOptions(0.05).momentum(0.9).dampening(0.3),
                                         SGDOptions(0.05).momentum(0.9).weight_decay(0.1).nesterov(true)));

/// Gradients have their parameter's strides as a rule, but a program may set one that has others.
TEST(FusedOptimizers, TakeGradientsOfAnyLayout) {
  const at::Tensor gradient = torch::arange(1, 7).to(torch::kFloat).view({3, 2}).t();
  const at::Tensor p = torch::zeros({2, 3}).requires_grad_();
  p.mutable_grad() = gradient;
  FusedSgd(std::vector<at::Tensor>{p}, SGDOptions(1).momentum(0.9)).step();
  EXPECT_TRUE(p.equal(-gradient)) << p;
  FusedAdam adam(std::vector<at::Tensor>{p}, torch::optim::AdamOptions(0.5));
  adam.step();
  const auto& state = static_cast<torch::optim::AdamParamState&>(*adam.state().begin()->second);
  EXPECT_TRUE(torch::allclose(state.exp_avg(), gradient * 0.1)) << state.exp_avg();
}

/// libtorch 2.11's SGD kernel for CPUs leaves out all but the last elements of a 16-bit tensor.
TEST(FusedOptimizers, UpdateEveryElementOfEachDtype) {
  const auto check = [](const char* name, at::ScalarType dtype, const auto& make) {
    for (const std::int64_t elements : {1, 8, 31, 32, 48, 100, 1000}) {
      const at::Tensor p = torch::ones({elements}, dtype).requires_grad_();
      const auto optimizer = make(std::vector<at::Tensor>{p});
      for (const double wanted : {0.5, -0.25}) {
        p.mutable_grad() = torch::ones({elements}, dtype);
        optimizer->step();
        EXPECT_TRUE((p - wanted).abs().lt(0.26).all().template item<bool>() && p.eq(p[0]).all().template item<bool>())
            << name << " " << dtype << " " << elements << p;
      }
    }
  };
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble}) {
    check("sgd", dtype, [](auto&& p) { return std::make_unique<FusedSgd>(p, 0.5); });
    check("momentum", dtype, [](auto&& p) { return std::make_unique<FusedSgd>(p, SGDOptions(0.5).momentum(0.5)); });
    check("adam", dtype, [](auto&& p) { return std::make_unique<FusedAdam>(p, torch::optim::AdamOptions(0.5)); });
    check("adamw", dtype, [](auto&& p) { return std::make_unique<FusedAdamW>(p, torch::optim::AdamWOptions(0.5)); });
  }
}

/// Adam's epsilon is 0 in float16, and squares of small or large numbers are 0 or infinite.
TEST(FusedOptimizers, KeepFloat16Finite) {
  const auto check = [](const char* name, const auto& make) {
    for (const double scale : {0.0, 1e-5, 1000.0}) {
      const at::Tensor p = torch::ones({8, 8}, at::kHalf).requires_grad_();
      const auto optimizer = make(std::vector<at::Tensor>{p});
      for (int step = 0; step < 3; ++step) {
        p.mutable_grad() = torch::full({8, 8}, step == 0 ? 0.0 : scale, at::kHalf);
        optimizer->step();
      }
      EXPECT_TRUE(p.isfinite().all().item<bool>() && p.sub(1).abs().max().item<double>() < 0.1) << name << scale << p;
    }
  };
  check("lamb", [](auto&& p) { return std::make_unique<Lamb>(p, torch::optim::AdamWOptions(0.01).weight_decay(0)); });
  check("lars", [](auto&& p) { return std::make_unique<Lars>(p, SGDOptions(0.01).momentum(0.5), 0.01); });
}

/// bfloat16 rounds a momentum of 0.99 to 0.988, and a rate of 0.0101 to 0.01007.
TEST(FusedSgd, SparseGradientsOfNarrowParametersHaveUnroundedFactors) {
  for (const bool nesterov : {false, true}) {
    const auto options = SGDOptions(0.0101).momentum(0.99).nesterov(nesterov);
    const auto train = [&](at::ScalarType dtype) {
      const at::Tensor table = torch::zeros({5, 3}, dtype).requires_grad_();
      FusedSgd optimizer(std::vector<at::Tensor>{table}, options);
      for (int k = 0; k < 20; ++k) {
        table.mutable_grad() = at::sparse_coo_tensor(torch::tensor({{1, 3, 1}}), torch::ones({3, 3}, dtype), {5, 3});
        optimizer.step();
      }
      return table.detach().to(at::kFloat);
    };
    const at::Tensor wanted = train(at::kFloat);
    for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
      EXPECT_TRUE(train(dtype).allclose(wanted, dtype == at::kHalf ? 2e-3 : 0.02)) << dtype << train(dtype) << wanted;
    }
  }
}

TEST(FusedOptimizers, RejectAPartOfATensor) {
  const at::Tensor part = torch::zeros({2, 6}).narrow(1, 0, 3).requires_grad_();
  part.mutable_grad() = torch::ones({2, 3});
  EXPECT_THROW(FusedSgd(std::vector<at::Tensor>{part}, SGDOptions(1)).step(), ArgumentError);
  EXPECT_THROW(FusedAdam(std::vector<at::Tensor>{part}, torch::optim::AdamOptions(1)).step(), ArgumentError);
}

}  // namespace
}  // namespace mn
