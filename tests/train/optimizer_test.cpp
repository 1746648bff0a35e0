// Steps of the multi-node optimizer: means, weights, gradients that are missing, parameters that change.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>

#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::SGD;
using torch::optim::SGDOptions;

TEST_P(OptimizerTest, WrappingBroadcastsRankZerosParameters) {
  const at::Tensor p = parameter({3, 7}, rank_ + 4);
  const auto optimizer = sgd({p});
  EXPECT_TRUE(p.equal(torch::full({3, 7}, 4.0)));
}

TEST_P(OptimizerTest, StepAppliesTheMeanGradient) {
  const at::Tensor p = parameter({11});
  const at::Tensor q = parameter({2, 3});
  const auto optimizer = sgd({p, q});
  optimizer->zero_grad();
  ((p * torch::arange(11)).sum() * (rank_ + 1) + q.sum() * size_).backward();
  optimizer->step();
  EXPECT_TRUE(torch::allclose(p, -torch::arange(11).to(torch::kFloat) * rank_sum_ / size_));
  EXPECT_TRUE(torch::allclose(q, torch::full({2, 3}, -1.0 * size_)));
}

TEST_P(OptimizerTest, BackwardsGradientsMoveIntoOneBuffer) {
  const at::Tensor p = parameter({4});
  const at::Tensor q = parameter({4});
  const auto optimizer = sgd({p, q});
  optimizer->zero_grad();
  EXPECT_FALSE(p.grad().defined());
  (p.sum() + 3 * q.sum()).backward();
  const auto* const there = p.grad().const_data_ptr<float>();
  EXPECT_EQ(std::abs(q.grad().const_data_ptr<float>() - there), 4);
  p.sum().backward();  // accumulates
  EXPECT_EQ(p.grad().const_data_ptr<float>(), there);
  optimizer->step();
  EXPECT_TRUE(p.equal(torch::full({4}, -2.0)));
  EXPECT_TRUE(q.equal(torch::full({4}, -3.0)));
}

TEST_P(OptimizerTest, WithoutZeroGradGradientsAddToTheMean) {
  const at::Tensor p = parameter({4});
  auto optimizer = sgd({p});
  double gradient = 0;
  double expected = 0;
  for (int step = 0; step < 3; ++step) {
    (p.sum() * (rank_ + 1)).backward();
    optimizer->step();
    gradient += rank_sum_ / size_;
    expected -= gradient;
    EXPECT_TRUE(torch::allclose(p, torch::full({4}, expected))) << "step " << step << ": " << p;
  }
  (p.sum() * (rank_ + 1)).backward();
  optimizer.reset();
  EXPECT_TRUE(torch::allclose(p.grad(), torch::full({4}, gradient + rank_ + 1)));
}

/// What does not fit the buffer when backward makes it is brought there at the step.
TEST_P(OptimizerTest, SparseGradientsAndThoseWithAGraphAreReduced) {
  const at::Tensor p = parameter({3, 2}, 1);
  const at::Tensor q = parameter({2}, 1);
  const auto optimizer = sgd({p, q});
  for (int step = 1; step <= 2; ++step) {
    optimizer->zero_grad();
    torch::embedding(p, torch::tensor({std::int64_t{1}}), -1, false, true).sum().backward();
    (q * q * (rank_ + 1) / 2).sum().backward({}, std::nullopt, /*create_graph=*/true);
    EXPECT_TRUE(p.grad().is_sparse() && q.grad().requires_grad());
    optimizer->step();
    EXPECT_TRUE(p.equal(torch::tensor({{1.0, 1.0}, {1.0 - step, 1.0 - step}, {1.0, 1.0}}).to(p.dtype()))) << p;
    EXPECT_TRUE(torch::allclose(q, torch::full({2}, std::pow(1 - rank_sum_ / size_, step)))) << q;
  }
}

TEST_P(OptimizerTest, WeighsByTheNumberOfSamples) {
  const at::Tensor p = parameter({3});
  const auto optimizer = sgd({p});
  for (const std::int64_t extra : {std::int64_t{0}, std::int64_t{5}}) {
    double weighted = 0;
    double samples = 0;
    for (int r = 0; r < size_; ++r) {
      weighted += (r + extra) * (r + 1.0);
      samples += r + static_cast<double>(extra);
    }
    const at::Tensor before = p.detach().clone();
    optimizer->zero_grad();
    if (rank_ + extra > 0) (p.sum() * (rank_ + 1)).backward();  // a rank without samples has no gradient
    optimizer->step(rank_ + extra);
    const double mean = samples == 0 ? 0 : weighted / samples;
    EXPECT_TRUE(torch::allclose(p, before - mean)) << "extra " << extra << ": " << p << before << mean;
  }
}

TEST_P(OptimizerTest, NoSamplesAnywhereChangeNothing) {
  const at::Tensor p = parameter({3}, 2);
  auto optimizer = create_multi_node_optimizer(
      std::make_unique<Adam>(std::vector<at::Tensor>{p}, AdamOptions(0.1).weight_decay(0.5)), comm_, options_);
  optimizer->zero_grad();
  p.sum().backward();
  optimizer->step(4);
  const at::Tensor before = p.detach().clone();
  optimizer->zero_grad();
  optimizer->step(0);
  EXPECT_TRUE(p.equal(before));
}

TEST_P(OptimizerTest, NoneCountsAsZeroWhereAnotherRankHasAGradient) {
  const at::Tensor p = parameter({5});
  const at::Tensor q = parameter({5});
  const auto optimizer = sgd({p, q});
  optimizer->zero_grad();
  (rank_ == 0 ? (p + q).sum() : q.sum()).backward();
  optimizer->step();
  EXPECT_TRUE(torch::allclose(p, torch::full({5}, -1.0 / size_)));
  EXPECT_TRUE(torch::allclose(q, torch::full({5}, -1.0)));
}

TEST_P(OptimizerTest, NoneOnEveryRankStaysNone) {
  Net net;
  auto optimizer = create_multi_node_optimizer(
      std::make_unique<Adam>(net.parameters(), AdamOptions(0.1).weight_decay(0.5)), comm_, options_);
  const at::Tensor unused = net.second->weight.detach().clone();
  const at::Tensor used = net.first->weight.detach().clone();
  for (int k = 0; k < 2; ++k) {
    optimizer->zero_grad();
    net.forward(torch::ones({2, 5}), false).sum().backward();
    optimizer->step();
    EXPECT_FALSE(net.second->weight.grad().defined());
  }
  EXPECT_TRUE(net.second->weight.equal(unused)) << "weight decay must leave it alone, as on one rank";
  EXPECT_FALSE(net.first->weight.equal(used));

  optimizer->zero_grad();  // used again later
  net.forward(torch::ones({2, 5})).sum().backward();
  optimizer->step();
  EXPECT_FALSE(net.second->weight.equal(unused));
}

TEST_P(OptimizerTest, GradientsSetByHandCount) {
  const at::Tensor p = parameter({4});
  const at::Tensor q = parameter({4});
  const auto optimizer = sgd({p, q});
  for (int step = 1; step <= 2; ++step) {
    optimizer->zero_grad();
    (p.sum() + q.sum()).backward();
    p.mutable_grad() = torch::full({4}, rank_ + 1.0);
    q.mutable_grad().reset();
    optimizer->step();
    EXPECT_TRUE(torch::allclose(p, torch::full({4}, -step * rank_sum_ / size_))) << p;
    EXPECT_FALSE(q.grad().defined());
    EXPECT_TRUE(q.equal(torch::zeros({4}))) << q;
  }
}

TEST_P(OptimizerTest, AChangedParameterSetIsBroadcastAgain) {
  const at::Tensor p = parameter({3});
  const at::Tensor q = parameter({6}, rank_ + 1);
  const auto optimizer = sgd({p});
  optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({q}));
  optimizer->zero_grad();
  EXPECT_TRUE(q.equal(torch::ones({6})));
  (p.sum() + q.sum() * rank_).backward();
  optimizer->step();
  EXPECT_TRUE(torch::allclose(q, torch::full({6}, 1 - (rank_sum_ / size_ - 1))));
}

TEST_P(OptimizerTest, GradientsOutliveTheOptimizer) {
  const at::Tensor p = parameter({200'000});
  auto optimizer = sgd({p});
  optimizer->zero_grad();
  (p.sum() * (rank_ + 1)).backward();
  optimizer->step();
  const at::Tensor held = p.grad();
  optimizer.reset();
  const at::Tensor other = torch::full({200'000}, 7.0);  // where the gradients were, perhaps
  EXPECT_TRUE(torch::allclose(p.grad(), torch::full({200'000}, rank_sum_ / size_)));
  EXPECT_TRUE(torch::allclose(held, p.grad()));
}

TEST_P(OptimizerTest, AnotherOptimizerGoesOnWithTheGradients) {
  const at::Tensor p = parameter({20'000});
  auto optimizer = sgd({p});
  optimizer->zero_grad();
  (p.sum() * (rank_ + 1)).backward();
  optimizer->step();
  optimizer = sgd({p});  // made while the first one lives
  p.sum().backward();
  optimizer->step();
  EXPECT_TRUE(torch::allclose(p, torch::full({20'000}, -2 * rank_sum_ / size_ - 1)));
}

TEST_P(OptimizerTest, AParameterAddedAfterBackwardLosesNoGradient) {
  const at::Tensor p = parameter({20'000});
  const at::Tensor unused = parameter({3}, 5);
  const at::Tensor added = parameter({6}, rank_ + 1);
  const auto optimizer = create_multi_node_optimizer(
      std::make_unique<SGD>(std::vector<at::Tensor>{p, unused}, SGDOptions(1).weight_decay(1)), comm_, options_);
  optimizer->zero_grad();
  (p.sum() * (rank_ + 1)).backward();
  optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({added}, std::make_unique<SGDOptions>(1)));
  optimizer->step();
  EXPECT_TRUE(torch::allclose(p, torch::full({20'000}, -rank_sum_ / size_)));
  EXPECT_TRUE(unused.equal(torch::full({3}, 5.0))) << "no rank has a gradient for it";
  EXPECT_TRUE(added.equal(torch::ones({6})));
}

TEST_P(OptimizerTest, ModelsThatDifferBetweenRanksAreOneErrorOnAll) {
  if (size_ == 1) return;
  const bool last = rank_ == size_ - 1;
  const auto refuse = [&](const std::vector<at::Tensor>& parameters, const std::string& at_0,
                          const std::string& at_last) {
    EXPECT_THAT([&] { sgd(parameters); },
                ThrowsMessage<ArgumentError>(HasSubstr("parameter 1 is " + at_0 + " on rank 0 and " + at_last +
                                                       " on rank " + std::to_string(size_ - 1))));
  };
  const at::Tensor same = parameter({4});
  refuse({same, parameter({last ? 4 : 3})}, "Float [3]", "Float [4]");
  refuse({same, last ? parameter({2, 6}) : parameter({3, 4})}, "Float [3, 4]", "Float [2, 6]");
  refuse({same, last ? torch::zeros({3}, torch::kDouble).requires_grad_() : parameter({3})}, "Float [3]", "Double [3]");
  refuse(last ? std::vector{same, same} : std::vector{same}, "absent", "Float [4]");
  sgd({same});  // the ranks are in step still
}

TEST_P(OptimizerTest, ParametersThatNeedNoGradientAreLeftAlone) {
  const at::Tensor p = parameter({3});
  const at::Tensor constant = torch::ones({3});
  sgd({p, constant}).reset();  // before any step
  const auto optimizer = sgd({p, constant});
  p.sum().backward();
  optimizer->step();
  EXPECT_TRUE(p.equal(torch::full({3}, -1.0)));
  EXPECT_TRUE(constant.equal(torch::ones({3})));
}

TEST_P(OptimizerTest, IntegerParametersAreBroadcastAndNotReduced) {
  torch::nn::Linear net(3, 2);
  net->register_parameter("indices", torch::arange(3) + rank_, false);
  const auto check = [&](const OptimizerOptions& options) {
    const auto optimizer =
        create_multi_node_optimizer(std::make_unique<SGD>(net->parameters(), SGDOptions(1)), comm_, options);
    EXPECT_TRUE(net->named_parameters()["indices"].equal(torch::arange(3)));
    const at::Tensor before = net->bias.detach().clone();
    for (int k = 0; k < 2; ++k) {
      optimizer->zero_grad();
      (net->forward(torch::ones({1, 3})).sum() * (rank_ + 1)).backward();
      optimizer->step();
    }
    EXPECT_TRUE(torch::allclose(net->bias, before - 2 * rank_sum_ / size_));
  };
  check(options_);
  check({.local_steps = 2});
  net->zero_grad();
  (net->forward(torch::ones({1, 3})).sum() * (rank_ + 1)).backward();
  comm_->allreduce_grad(*net);
  EXPECT_TRUE(torch::allclose(net->bias.grad(), torch::full({2}, rank_sum_ / size_)));
}

TEST_P(OptimizerTest, HooksSeeTheMeanInTheOrderAdded) {
  const at::Tensor p = parameter({2});
  const auto optimizer = sgd({p});
  std::string order;
  optimizer->add_hook("look", [&](const std::vector<at::Tensor>& parameters) {
    order += "1";
    EXPECT_TRUE(torch::allclose(parameters.at(0).grad(), torch::full({2}, rank_sum_ / size_)));
  });
  optimizer->add_hook("clip", gradient_clipping(0.5));
  optimizer->add_hook("after", [&](const std::vector<at::Tensor>& parameters) {
    order += "2";
    EXPECT_NEAR(parameters.at(0).grad().norm().item<double>(), 0.5, 1e-6);
  });
  EXPECT_THROW(optimizer->add_hook("clip", gradient_clipping(1)), ArgumentError);
  optimizer->zero_grad();
  (p.sum() * (rank_ + 1)).backward();
  optimizer->step();
  optimizer->remove_hook("after");
  EXPECT_THROW(optimizer->remove_hook("after"), ArgumentError);
  EXPECT_EQ(order, "12");
}

TEST_P(OptimizerTest, LibtorchSchedulersDriveTheWrappedOptimizer) {
  const at::Tensor p = parameter({1});
  const auto optimizer = sgd({p}, 1.0);
  torch::optim::StepLR schedule(optimizer->actual(), 1, 0.5);
  for (int k = 0; k < 3; ++k) {
    optimizer->zero_grad();
    p.sum().backward();
    optimizer->step();
    schedule.step();
  }
  EXPECT_FLOAT_EQ(p.item<float>(), -2.5F);  // libtorch's StepLR lets its first step pass
  EXPECT_DOUBLE_EQ(optimizer->param_groups()[0].options().get_lr(), 0.25);
}

TEST_P(OptimizerTest, KeepsChannelsLastAndMixedTypes) {
  torch::nn::Conv2d conv(3, 4, 3);
  conv->to(torch::kCPU);
  conv->weight.set_data(conv->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor half = torch::zeros({9}, torch::kBFloat16).requires_grad_();
  const at::Tensor wide = torch::zeros({4}, torch::kDouble).requires_grad_();
  const auto optimizer = sgd({conv->weight, half, wide, conv->bias});
  const at::Tensor before = conv->weight.detach().clone();
  optimizer->zero_grad();
  const at::Tensor pattern = torch::arange(108).view({4, 3, 3, 3}).to(torch::kFloat);
  ((conv->weight * pattern).sum() * (rank_ + 1)).backward();
  EXPECT_TRUE(conv->weight.grad().is_contiguous(at::MemoryFormat::ChannelsLast));
  (half.sum() * (rank_ + 1)).backward();
  (wide.sum() * (rank_ + 1)).backward();
  optimizer->step();
  EXPECT_TRUE(torch::allclose(conv->weight, before - pattern * rank_sum_ / size_));
  EXPECT_TRUE(torch::allclose(half.to(torch::kFloat), torch::full({9}, -rank_sum_ / size_), 1e-2));
  EXPECT_TRUE(torch::allclose(wide, torch::full({4}, -rank_sum_ / size_, torch::kDouble)));
}

INSTANTIATE_TEST_SUITE_P(Backends, OptimizerTest, kWays, way_name);

}  // namespace
}  // namespace mn
