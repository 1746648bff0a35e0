// Steps of the multi-node optimizer: means, weights, gradients that are missing, hooks.
#include <cmath>
#include <set>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/tensor.hpp>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::SGD;
using torch::optim::SGDOptions;

/// optimizer.hpp has these lines as its example. The ranks' minibatches differ in size.
TEST_P(OptimizerTest, TheExampleInItsHeaderTrains) {
  const auto& comm = comm_;
  const auto model = std::make_shared<Net>();
  const at::Tensor x = torch::sin(torch::arange(5 * (rank_ + 2))).view({-1, 5});
  const std::vector<std::pair<at::Tensor, at::Tensor>> minibatches(3, {x, x.narrow(1, 0, 2)});
  const at::Tensor before = model->second->weight.detach().clone();

  auto sgd = std::make_unique<torch::optim::SGD>(model->parameters(), 0.1);
  auto optimizer = mn::create_multi_node_optimizer(std::move(sgd), comm);
  for (const auto& [inputs, targets] : minibatches) {
    optimizer->zero_grad();
    const at::Tensor loss = torch::mse_loss(model->forward(inputs), targets);
    loss.backward();
    mn::clip_grad_norm(*optimizer, 1.0, inputs.size(0));  // the norm of the mean gradient over all ranks
    optimizer->step(inputs.size(0));                      // this rank's samples
  }

  EXPECT_FALSE(model->second->weight.equal(before));
  at::Tensor mean = model->second->weight.detach().clone();
  comm->allreduce(mean);
  EXPECT_TRUE(torch::allclose(mean, model->second->weight * size_));
}

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

/// Backward leaves them outside the buffer. The step copies those with a graph into it.
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
    EXPECT_TRUE(p.grad().is_sparse());
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

TEST_P(OptimizerTest, WeighsFloat64AsPreciselyAsItIs) {
  const at::Tensor p = torch::zeros(7, at::kDouble).requires_grad_();
  const auto optimizer = sgd({p});
  double weighted = 0;
  double samples = 0;
  for (int r = 0; r < size_; ++r) {
    weighted += (r + 3) * std::sqrt(r + 2.0);
    samples += r + 3;
  }
  (p.sum() * std::sqrt(rank_ + 2.0)).backward();
  optimizer->step(rank_ + 3);
  EXPECT_NEAR(p[0].item<double>(), -weighted / samples, 1e-14);
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
  options_.check_gradients = false;
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

/// Tied weights, which two modules register.
TEST_P(OptimizerTest, AParameterThatIsListedTwiceIsUpdatedOnce) {
  const at::Tensor p = parameter({3});
  const at::Tensor q = parameter({3});
  const auto optimizer = sgd({p, q, p});
  optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({q}, std::make_unique<SGDOptions>(1)));
  for (int step = 1; step <= 2; ++step) {
    optimizer->zero_grad();
    ((p.sum() + q.sum()) * (rank_ + 1)).backward();
    optimizer->step();
    EXPECT_TRUE(torch::allclose(p, torch::full({3}, -step * rank_sum_ / size_))) << p;
    EXPECT_TRUE(torch::allclose(q, torch::full({3}, -step * rank_sum_ / size_))) << q;
  }
}

/// As dropout does.
TEST_P(OptimizerTest, RanksDrawDifferentRandomNumbersFromHereOn) {
  torch::manual_seed(9);
  const double same = torch::rand({}).item<double>();
  const at::Tensor p = torch::rand({5}).requires_grad_();
  EXPECT_EQ(comm_->bcast_obj(nlohmann::json(same)), same);
  const auto draw = [&] {
    std::set<std::string> drawn;
    for (const auto& number : comm_->allgather_obj(nlohmann::json(torch::rand({}).item<double>()))) {
      drawn.insert(number.dump());
    }
    return drawn;
  };
  at::Generator generator = torch::globalContext().defaultGenerator(torch::Device(torch::kCPU));
  const at::Tensor before = generator.get_state();
  const auto optimizer = sgd({p});
  EXPECT_TRUE(rank_ != 0 || generator.get_state().equal(before)) << "rank 0 draws as one process would";
  EXPECT_EQ(draw().size(), static_cast<std::size_t>(size_));
  torch::manual_seed(100 + rank_);  // a program that seeds the ranks itself keeps its numbers
  const at::Tensor own = generator.get_state();
  sgd({p}).reset();
  EXPECT_TRUE(generator.get_state().equal(own));
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

INSTANTIATE_TEST_SUITE_P(Backends, OptimizerTest, kWays, way_name);

}  // namespace
}  // namespace mn
