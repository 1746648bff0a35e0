// The parameters of the multi-node optimizer: sets that change, that differ between ranks, parameters of several types,
// and gradients that outlive the optimizer.
#include <gmock/gmock.h>

#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::SGD;
using torch::optim::SGDOptions;

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

/// The first step after a change makes one reduction more.
TEST_P(OptimizerTest, AFrozenParameterIsNotSentAndComesBack) {
  const at::Tensor p = parameter({3}), q = parameter({1000});
  const auto optimizer = sgd({p, q});
  std::vector<std::uint64_t> sent;
  for (int k = 0; k < 6; ++k) {
    const bool trains_q = k % 4 < 2;
    q.requires_grad_(trains_q);
    const std::uint64_t before = optimizer->bytes_sent();
    optimizer->zero_grad();
    EXPECT_EQ(optimizer->trained_parameters().size(), trains_q ? 2U : 1U);
    ((p.sum() + q.sum()) * (rank_ + 1)).backward();
    optimizer->step();
    EXPECT_EQ(q.grad().defined(), trains_q);
    sent.push_back(optimizer->bytes_sent() - before);
  }
  EXPECT_TRUE(torch::allclose(p, torch::full({3}, -6 * rank_sum_ / size_)));
  EXPECT_TRUE(torch::allclose(q, torch::full({1000}, -4 * rank_sum_ / size_)));
  if (size_ == 1) return;
  EXPECT_LT(sent[3], 1000U) << "bytes";
  EXPECT_GT(sent[4], 4000U) << "bytes";
}

TEST_P(OptimizerTest, AFreezeOfOneRankIsTheSameErrorOnAll_from_2_ranks) {
  const at::Tensor p = parameter({3}), q = parameter({1000}), r = parameter({1000});
  const auto optimizer = sgd({p, q, r});
  const auto step = [&](bool q_trains, bool r_trains, bool late) {
    if (!late) q.requires_grad_(q_trains), r.requires_grad_(r_trains);
    optimizer->zero_grad();
    ((p.sum() + q.sum() + r.sum()) * (rank_ + 1)).backward();
    if (late) q.requires_grad_(q_trains), r.requires_grad_(r_trains);
    optimizer->step();
  };
  const auto expect_error = [&](bool q_trains, bool r_trains, bool late) {
    EXPECT_THAT([&] { step(q_trains, r_trains, late); },
                ThrowsMessage<UsageError>(HasSubstr("the ranks differ in the parameters that they train")));
    step(true, true, false);
  };
  step(true, true, false);
  for (const bool late : {false, true}) {
    expect_error(rank_ == 0, true, late);
    expect_error(rank_ != 0, rank_ == 0, late);  // equal sizes
  }
  step(false, true, false);
  EXPECT_THAT([&] { step(rank_ == 0, true, false); }, ThrowsMessage<UsageError>(HasSubstr("the parameters that")));
  step(true, true, false);
  EXPECT_TRUE(torch::allclose(q, torch::full({1000}, -6 * rank_sum_ / size_)));
  EXPECT_TRUE(torch::allclose(r, torch::full({1000}, -7 * rank_sum_ / size_)));
  r.requires_grad_(rank_ == 0);
  EXPECT_THAT([&] { sgd({p, r}); }, ThrowsMessage<UsageError>(HasSubstr("requires_grad of parameter 1 is true")));
}

TEST_P(OptimizerTest, AParameterThatChangedOnOneRankWhileFrozenIsAnError_from_2_ranks) {
  const at::Tensor p = parameter({3}), q = parameter({6});
  const auto optimizer = sgd({p, q});
  const auto step = [&](bool trains_q) {
    q.requires_grad_(trains_q);
    optimizer->zero_grad();
    (p.sum() + q.sum() * (rank_ + 1)).backward();
    optimizer->step();
  };
  step(true);
  step(false);
  q.data().fill_(rank_);
  EXPECT_THAT([&] { step(true); },
              ThrowsMessage<UsageError>(HasSubstr("parameter 1, which was frozen and is trained")));
  comm_->broadcast_data(std::vector{q});
  step(true);
  EXPECT_TRUE(torch::allclose(q, torch::full({6}, -rank_sum_ / size_)));
}

TEST_P(OptimizerTest, AFreezeAfterBackwardKeepsTheOtherGradients) {
  const at::Tensor p = parameter({20'000}), q = parameter({6});
  const auto optimizer = sgd({p, q});
  for (const bool trains_q : {false, true, false}) {
    optimizer->zero_grad();
    ((p.sum() + q.sum()) * (rank_ + 1)).backward();
    q.requires_grad_(trains_q);
    if (!trains_q) q.mutable_grad().reset();
    optimizer->step();
  }
  EXPECT_TRUE(torch::allclose(p, torch::full({20'000}, -3 * rank_sum_ / size_)));
  EXPECT_TRUE(q.equal(torch::zeros({6})));
}

TEST_P(OptimizerTest, ComplexParametersArePairsOfRealOnes) {
  const at::Tensor whole = torch::zeros({3}, at::kComplexFloat).requires_grad_();
  EXPECT_THAT([&] { sgd({whole}); }, ThrowsMessage<ArgumentError>(HasSubstr("ComplexFloat can't be sent")));
  const at::Tensor pairs = parameter({3, 2});
  const auto optimizer = sgd({pairs});
  optimizer->zero_grad();
  at::real(at::view_as_complex(pairs) * c10::complex<float>(static_cast<float>(rank_ + 1), 1)).sum().backward();
  optimizer->step();
  EXPECT_TRUE(torch::allclose(pairs.select(1, 0), torch::full({3}, -rank_sum_ / size_)));
  EXPECT_TRUE(pairs.select(1, 1).equal(torch::ones({3})));
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

TEST_P(OptimizerTest, AnotherOptimizerContinuesWithTheGradients) {
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

/// With overlap ranks have sent different numbers of buckets by then.
TEST_P(OptimizerTest, AParameterMayBeAddedAfterABackwardThatDiffersBetweenRanks) {
  const at::Tensor p = parameter({2000}), q = parameter({2000}), added = parameter({6});
  const auto optimizer = sgd({p, q});
  for (int k = 0; k < 4; ++k) {
    optimizer->zero_grad();
    (rank_ == 0 ? p.sum() + q.sum() : p.sum()).backward();
    if (k == 3) optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({added}));
    optimizer->step();
  }
  EXPECT_TRUE(torch::allclose(p, torch::full({2000}, -4.0)));
  EXPECT_TRUE(torch::allclose(q, torch::full({2000}, -4.0 / size_)));
}

TEST_P(OptimizerTest, ModelsThatDifferBetweenRanksAreTheSameErrorOnAll_from_2_ranks) {
  const bool last = rank_ == size_ - 1;
  const auto expect_error = [&](const std::vector<at::Tensor>& parameters, const std::string& at_0,
                                const std::string& at_last) {
    EXPECT_THAT([&] { sgd(parameters); },
                ThrowsMessage<ArgumentError>(HasSubstr("parameter 1 is " + at_0 + " on rank 0 and " + at_last +
                                                       " on rank " + std::to_string(size_ - 1))));
  };
  const at::Tensor same = parameter({4});
  expect_error({same, parameter({last ? 4 : 3})}, "Float [3]", "Float [4]");
  expect_error({same, last ? parameter({2, 6}) : parameter({3, 4})}, "Float [3, 4]", "Float [2, 6]");
  expect_error({same, last ? torch::zeros({3}, torch::kDouble).requires_grad_() : parameter({3})}, "Float [3]",
               "Double [3]");
  expect_error(last ? std::vector{same, parameter({4})} : std::vector{same}, "absent", "Float [4]");
  sgd({same});  // the ranks still make the same calls
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

TEST_P(OptimizerTest, ASetThatCantBeAdoptedLeavesTheLastOne) {
  const at::Tensor p = parameter({3});
  const auto optimizer = sgd({p});
  const auto step = [&] {
    optimizer->zero_grad();
    p.sum().backward();
    optimizer->step();
  };
  step();
  const std::uint64_t sent = optimizer->bytes_sent();
  const at::Tensor elsewhere = torch::empty({3}, torch::TensorOptions(torch::kMeta)).requires_grad_();
  optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({elsewhere}));
  for (int k = 0; k < 2; ++k) {
    EXPECT_THAT([&] { optimizer->zero_grad(); }, ThrowsMessage<ArgumentError>(HasSubstr("a parameter is on meta")));
  }
  EXPECT_EQ(optimizer->bytes_sent(), 3 * sent) << "each call makes a reduction, to agree on the new set";
  optimizer->param_groups().pop_back();
  step();
  EXPECT_TRUE(p.equal(torch::full({3}, -2.0)));
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

}  // namespace
}  // namespace mn
