#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/train/fused_adam.hpp>
#include <mn/train/optimizer.hpp>
#include <mn/train/tensor.hpp>

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::SGD;
using torch::optim::SGDOptions;

/// Two linear layers, of which the second can be left out of a forward, and a convolution kept in channels_last.
struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(7);
    first = register_module("first", torch::nn::Linear(5, 3));
    second = register_module("second", torch::nn::Linear(3, 2));
  }
  at::Tensor forward(const at::Tensor& x, bool with_second = true) {
    const at::Tensor h = torch::tanh(first(x));
    return with_second ? second(h) : h;
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

struct Way {
  std::string backend;
  bool overlap;
};

class OptimizerTest : public testing::TestWithParam<Way> {
 protected:
  std::shared_ptr<Communicator> comm_ = create_communicator(GetParam().backend, MPI_COMM_WORLD, {.device = Device{}});
  OptimizerOptions options_{.overlap = GetParam().overlap, .bucket_bytes = 16};
  int rank_ = comm_->rank();
  int size_ = comm_->size();
  double rank_sum_ = size_ * (size_ + 1) / 2.0;

  std::unique_ptr<MultiNodeOptimizer> sgd(const std::vector<at::Tensor>& parameters, double lr = 1) {
    return create_multi_node_optimizer(std::make_unique<SGD>(parameters, SGDOptions(lr)), comm_, options_);
  }
};

at::Tensor parameter(at::IntArrayRef shape, double value = 0) { return torch::full(shape, value).requires_grad_(); }

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

TEST_P(OptimizerTest, GradientsAreViewsThatBackwardWritesInPlace) {
  const at::Tensor p = parameter({4});
  const auto optimizer = sgd({p});
  optimizer->zero_grad();
  void* const before = p.grad().data_ptr();
  p.sum().backward();
  p.sum().backward();  // accumulates
  EXPECT_EQ(p.grad().data_ptr(), before);
  optimizer->step();
  EXPECT_TRUE(p.equal(torch::full({4}, -2.0)));
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

TEST_P(OptimizerTest, LostViewsAreCopiedAndAttachedAgain) {
  Net net;
  const auto optimizer = sgd(net.parameters());
  const at::Tensor weight = net.first->weight;
  const at::Tensor before = weight.detach().clone();
  net.zero_grad();  // sets every gradient to None
  (weight.sum() * (rank_ + 1)).backward();
  optimizer->step();
  EXPECT_TRUE(torch::allclose(weight, before - rank_sum_ / size_));
  EXPECT_FALSE(net.second->weight.grad().defined());
  optimizer->zero_grad();
  EXPECT_TRUE(net.second->weight.grad().defined());
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
  EXPECT_TRUE(conv->weight.grad().is_contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor pattern = torch::arange(108).view({4, 3, 3, 3}).to(torch::kFloat);
  ((conv->weight * pattern).sum() * (rank_ + 1)).backward();
  (half.sum() * (rank_ + 1)).backward();
  (wide.sum() * (rank_ + 1)).backward();
  optimizer->step();
  EXPECT_TRUE(torch::allclose(conv->weight, before - pattern * rank_sum_ / size_));
  EXPECT_TRUE(torch::allclose(half.to(torch::kFloat), torch::full({9}, -rank_sum_ / size_), 1e-2));
  EXPECT_TRUE(torch::allclose(wide, torch::full({4}, -rank_sum_ / size_, torch::kDouble)));
}

TEST(FusedAdamTest, StepsAsTorchsAdamAndTakesItsState) {
  for (const bool amsgrad : {false, true}) {
    const auto options = AdamOptions(0.05).weight_decay(0.1).amsgrad(amsgrad);
    Net a;
    Net b;
    Adam theirs(a.parameters(), options);
    FusedAdam ours(b.parameters(), options);
    const auto run = [&](Net& net, torch::optim::Optimizer& optimizer, int k) {
      torch::manual_seed(k);
      net.zero_grad();
      net.forward(torch::randn({4, 5}), k % 2 == 0).pow(2).sum().backward();  // counts differ between the layers
      optimizer.step();
    };
    const auto expect_same = [&](int k) {
      for (std::size_t i = 0; i < a.parameters().size(); ++i) {
        EXPECT_TRUE(torch::allclose(a.parameters()[i], b.parameters()[i], 1e-5, 1e-6))
            << "step " << k << " parameter " << i;
      }
    };
    for (int k = 0; k < 5; ++k) {
      run(a, theirs, k);
      run(b, ours, k);
      expect_same(k);
    }
    std::stringstream saved;
    torch::save(theirs, saved);
    torch::load(ours, saved);
    run(a, theirs, 6);
    run(b, ours, 6);
    expect_same(6);
  }
}

TEST_P(OptimizerTest, AllreduceGradWritesIntoTheGradientsThatAreThere) {
  const at::Tensor p = parameter({2, 3, 4, 5});
  (p.sum() * (rank_ + 1)).backward();
  const at::Tensor held = p.grad();
  const at::Tensor q = parameter({2, 3, 4, 5});
  q.mutable_grad() = torch::arange(120).view({2, 3, 4, 5}).to(torch::kFloat) * (rank_ + 1);
  if (rank_ == 0) q.mutable_grad() = q.grad().contiguous(at::MemoryFormat::ChannelsLast);  // on this rank alone
  const at::Tensor also_held = q.grad();
  const at::Tensor rows = parameter({4, 2});
  torch::embedding(rows, torch::tensor({std::int64_t{1}}), -1, false, true).sum().backward();  // a sparse gradient
  comm_->allreduce_grad(std::vector<at::Tensor>{p, q, rows});
  EXPECT_TRUE(held.is_same(p.grad()));
  EXPECT_TRUE(torch::allclose(held, torch::full({2, 3, 4, 5}, rank_sum_ / size_)));
  EXPECT_TRUE(also_held.is_same(q.grad()));
  EXPECT_TRUE(torch::allclose(also_held, torch::arange(120).view({2, 3, 4, 5}).to(torch::kFloat) * rank_sum_ / size_));
  EXPECT_TRUE(torch::allclose(rows.grad()[1], torch::ones({2})));
}

TEST_P(OptimizerTest, AllreduceGradAveragesAModule) {
  Net net;
  (net.first->weight.sum() * (rank_ + 1)).backward();
  if (rank_ == size_ - 1) net.second->bias.sum().backward();
  comm_->allreduce_grad(net);
  EXPECT_TRUE(torch::allclose(net.first->weight.grad(), torch::full({3, 5}, rank_sum_ / size_)));
  EXPECT_TRUE(torch::allclose(net.second->bias.grad(), torch::full({2}, 1.0 / size_)));
  EXPECT_FALSE(net.second->weight.grad().defined());
}

TEST_P(OptimizerTest, BroadcastDataTakesParametersAndBuffers) {
  torch::nn::BatchNorm1d norm(3);
  torch::NoGradGuard no_grad;
  norm->weight.fill_(rank_ + 1);
  norm->running_mean.fill_(rank_ + 2);
  norm->num_batches_tracked.fill_(rank_ + 3);
  const int root = size_ - 1;
  comm_->broadcast_data(*norm, root);
  EXPECT_TRUE(norm->weight.equal(torch::full({3}, root + 1.0)));
  EXPECT_TRUE(norm->running_mean.equal(torch::full({3}, root + 2.0)));
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), root + 3);
}

/// n ranks with batch b against one rank with batch n·b, same samples in the same order, uneven last batch included.
class EqualityTest : public OptimizerTest {
 protected:
  using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;

  static constexpr std::int64_t kSamples = 23;
  static constexpr std::int64_t kBatch = 2;

  std::vector<at::Tensor> train(const std::shared_ptr<Communicator>& comm, std::int64_t batch,
                                const MakeOptimizer& make) {
    Net net;
    auto optimizer = create_multi_node_optimizer(make(net.parameters()), comm, options_);
    optimizer->add_hook("decay", weight_decay(0.01));
    optimizer->add_hook("clip", gradient_clipping(0.05));
    torch::manual_seed(1);
    const at::Tensor x = torch::randn({kSamples, 5});
    const at::Tensor y = torch::randn({kSamples, 2});
    const std::int64_t global = batch * comm->size();
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (std::int64_t begin = 0; begin < kSamples; begin += global) {
        const std::int64_t first = std::min(begin + batch * comm->rank(), kSamples);
        const std::int64_t last = std::min({first + batch, begin + global, kSamples});
        optimizer->zero_grad();
        if (last > first) {
          torch::mse_loss(net.forward(x.slice(0, first, last)), y.slice(0, first, last)).backward();
        }
        optimizer->step(last - first);
      }
    }
    return net.parameters();
  }

  void expect_equal(const MakeOptimizer& make) {
    const auto alone = comm_->split(rank_, 0);
    const auto together = train(comm_, kBatch, make);
    const auto reference = train(alone, kBatch * size_, make);
    for (std::size_t i = 0; i < reference.size(); ++i) {
      EXPECT_TRUE(torch::allclose(together[i], reference[i], 1e-4, 1e-5))
          << "parameter " << i << ": " << (together[i] - reference[i]).abs().max();
    }
  }
};

TEST_P(EqualityTest, Sgd) {
  expect_equal([](const auto& p) { return std::make_unique<SGD>(p, SGDOptions(0.1)); });
}

TEST_P(EqualityTest, Momentum) {
  expect_equal([](const auto& p) { return std::make_unique<SGD>(p, SGDOptions(0.1).momentum(0.9)); });
}

TEST_P(EqualityTest, AdamWithWeightDecay) {
  expect_equal([](const auto& p) { return std::make_unique<Adam>(p, AdamOptions(0.01).weight_decay(0.1)); });
}

/// Trains a few steps of a net that uses a layer now and then, with two backwards a step, and returns its parameters.
std::vector<at::Tensor> train_irregularly(const std::shared_ptr<Communicator>& comm, const OptimizerOptions& options,
                                          bool no_sync) {
  Net net;
  auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(net.parameters(), SGDOptions(0.1).momentum(0.9)),
                                               comm, options);
  torch::manual_seed(100 + comm->rank());
  for (int k = 0; k < 20; ++k) {
    optimizer->zero_grad();
    const auto backward = [&] {
      const at::Tensor x = torch::randn({3, 5});
      // The first layer is used twice; ranks differ in whether they use the second.
      (net.forward(x, (k + comm->rank()) % 3 != 0).pow(2).sum() + net.forward(x, false).sum()).backward();
    };
    if (k % 4 == 1) {
      const auto guard = no_sync ? optimizer->no_sync() : nullptr;
      backward();
    }
    if (k % 5 == 2) net.first->weight.mutable_grad().mul_(2);  // by hand, on this rank's own
    backward();
    if (k % 5 == 3) net.first->bias.mutable_grad() = torch::ones({3}) * comm->rank();  // a gradient from elsewhere
    if (k % 7 == 4) net.first->weight.mutable_grad().add_(1);                          // after its bucket may have left
    optimizer->step(1 + (k + comm->rank()) % 2);
  }
  std::vector<at::Tensor> result;
  for (const auto& p : net.parameters()) result.push_back(p.detach().clone());
  return result;
}

TEST_P(OptimizerTest, OverlapChangesNoBit) {
  const auto direct = train_irregularly(comm_, {}, false);
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{40}, std::size_t{1} << 20}) {
    for (const bool deterministic : {false, true}) {
      for (const bool no_sync : {false, true}) {
        const OptimizerOptions options{.overlap = true, .deterministic = deterministic, .bucket_bytes = bucket_bytes};
        const auto overlapped = train_irregularly(comm_, options, no_sync);
        for (std::size_t i = 0; i < direct.size(); ++i) {
          EXPECT_TRUE(overlapped[i].equal(direct[i])) << "buckets of " << bucket_bytes << ", parameter " << i;
        }
      }
    }
  }
}

TEST_P(OptimizerTest, NoSyncLastsAsLongAsAnyOfItsTokens) {
  const at::Tensor p = parameter({40});
  const at::Tensor added = parameter({4});
  auto optimizer = sgd({p});
  const auto sends_during_backward = [&] {
    const std::uint64_t before = optimizer->bytes_sent();
    optimizer->zero_grad();
    p.sum().backward();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for the communication thread
    const bool sent = optimizer->bytes_sent() > before;
    optimizer->step();
    return sent;
  };
  auto outer = optimizer->no_sync();
  { const auto inner = optimizer->no_sync(); }
  EXPECT_FALSE(sends_during_backward());
  optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({added}, std::make_unique<SGDOptions>(1)));
  EXPECT_FALSE(sends_during_backward());
  optimizer.reset();
  outer.reset();
  optimizer = sgd({p});
  EXPECT_EQ(sends_during_backward(), GetParam().overlap && size_ > 1);
}

TEST_P(OptimizerTest, TheUsersOwnHooksStay) {
  struct Count : torch::autograd::PostAccumulateGradHook {
    explicit Count(int& calls) : calls_(calls) {}
    void operator()(const torch::autograd::Variable&) override { ++calls_; }
    int& calls_;
  };
  const at::Tensor p = parameter({40});
  int calls = 0;
  auto own = std::make_unique<Count>(calls);
  const auto* const address = own.get();
  torch::autograd::impl::set_post_acc_grad_hooks(p, std::move(own));
  auto optimizer = sgd({p});
  optimizer = sgd({p});  // made while the first one lives, whose end must leave its hooks alone
  for (int k = 1; k <= 3; ++k) {
    EXPECT_EQ(torch::autograd::impl::post_acc_grad_hooks(p).get() != address, GetParam().overlap && size_ > 1);
    optimizer->zero_grad();
    p.sum().backward();
    optimizer->step();
    EXPECT_EQ(calls, k);
  }
  optimizer.reset();
  EXPECT_EQ(torch::autograd::impl::post_acc_grad_hooks(p).get(), address);
}

TEST_P(OptimizerTest, ABackwardWithoutAStepIsForgotten) {
  const at::Tensor p = parameter({40});
  const at::Tensor q = parameter({3});
  const auto optimizer = sgd({p, q});
  optimizer->zero_grad();
  (rank_ == 0 ? p.sum() + q.sum() : q.sum()).backward();
  optimizer->zero_grad();
  (p.sum() * (rank_ + 1)).backward();
  optimizer->step();
  EXPECT_TRUE(torch::allclose(p, torch::full({40}, -rank_sum_ / size_)));
  EXPECT_TRUE(q.equal(torch::zeros({3})));
}

TEST_P(OptimizerTest, DoubleBufferingAppliesThePreviousMean) {
  const at::Tensor p = parameter({5});
  auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)), comm_,
                                               {.double_buffering = true});
  double expected = 0;
  for (int k = 1; k <= 4; ++k) {
    optimizer->zero_grad();
    (p.sum() * (k * (rank_ + 1))).backward();
    optimizer->step();
    expected -= (k - 1) * rank_sum_ / size_;
    EXPECT_TRUE(torch::allclose(p, torch::full({5}, expected))) << "step " << k;
  }
}

TEST_P(OptimizerTest, DoubleBufferingLosesNothingToAnAddedParameter) {
  const at::Tensor p = parameter({5});
  const at::Tensor added = parameter({3});
  auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)), comm_,
                                               {.double_buffering = true});
  const double mean = rank_sum_ / size_;
  for (const int k : {1, 10, 100}) {
    optimizer->zero_grad();
    ((p.sum() + added.sum()) * (k * (rank_ + 1))).backward();
    if (k == 10) {
      optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({added}, std::make_unique<SGDOptions>(1)));
    }
    optimizer->step();
    if (k == 10) {
      EXPECT_TRUE(torch::allclose(p, torch::full({5}, -mean))) << "the first step's mean alone";
    }
  }
  optimizer->synchronize();
  EXPECT_TRUE(torch::allclose(p, torch::full({5}, -111 * mean))) << p;
  EXPECT_TRUE(torch::allclose(added, torch::full({3}, -111 * mean)))
      << added;  // its gradients of two backwards, 1 + 10
}

TEST_P(OptimizerTest, OverlapAndDoubleBufferingExcludeEachOther) {
  const at::Tensor p = parameter({5});
  EXPECT_THROW(create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)), comm_,
                                           {.overlap = true, .double_buffering = true}),
               UsageError);
}

const auto kWays = testing::Values(Way{"naive", false}, Way{"flat", false}, Way{"flat", true},
                                   Way{"hierarchical", false}, Way{"hierarchical", true});
void PrintTo(const Way& way, std::ostream* out) { *out << way.backend << (way.overlap ? " overlapped" : ""); }
std::string way_name(const testing::TestParamInfo<Way>& way) {
  return way.param.backend + (way.param.overlap ? "_overlapped" : "");
}
INSTANTIATE_TEST_SUITE_P(Backends, OptimizerTest, kWays, way_name);
INSTANTIATE_TEST_SUITE_P(Backends, EqualityTest, kWays, way_name);

}  // namespace
}  // namespace mn
