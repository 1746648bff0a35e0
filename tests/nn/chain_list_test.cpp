// MultiNodeChainList: ChainerMN's own cases, the gradients of one process, components with other numbers of tensors.
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/nn/chain_list.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/nn/on_devices.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Tensors = std::vector<at::Tensor>;
using Ranks = MultiNodeChainList::Ranks;

constexpr std::int64_t kSize = 10;

/// A linear layer of the sum of its inputs, whose weights depend on a number alone.
struct Layer : torch::nn::Module {
  explicit Layer(int number, std::int64_t outputs = kSize) {
    torch::manual_seed(number);
    linear = register_module("linear", torch::nn::Linear(kSize, outputs));
  }
  at::Tensor forward(const Tensors& inputs) {
    at::Tensor sum = inputs.at(0);
    for (std::size_t i = 1; i < inputs.size(); ++i) sum = sum + inputs[i];
    return linear->forward(sum);
  }
  torch::nn::Linear linear = nullptr;
};

struct TwoOutputs : torch::nn::Module {
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x) { return {first->forward(x), second->forward(x)}; }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kSize, kSize));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kSize, kSize));
};

struct TwoInputs : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& y) { return first->forward(x) + second->forward(y); }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kSize, kSize));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kSize, kSize));
};

std::shared_ptr<Layer> layer(int number, std::int64_t outputs = kSize) {
  return std::make_shared<Layer>(number, outputs);
}

class ChainListTest : public ::testing::TestWithParam<std::tuple<DeviceType, at::ScalarType>> {
 protected:
  void SetUp() override {
    const DeviceType device = std::get<0>(GetParam());
    if (device == DeviceType::kCuda && cuda_device_count() == 0) GTEST_SKIP() << "needs a device";
    comm_ = test::shared_comm(device);
    rank_ = comm_->rank(), size_ = comm_->size();
    next_ = (rank_ + 1) % size_, before_ = (rank_ + size_ - 1) % size_;
  }
  [[nodiscard]] at::Tensor random(std::int64_t size = kSize) const {
    return torch::randn({1, size}).to(c10::Device(comm_->device()), std::get<1>(GetParam()));
  }
  /// One hundred steps of single samples, as ChainerMN's tests make them. All parameters get gradients.
  void train(MultiNodeChainList& model, bool has_loss = true) const {
    model.to(c10::Device(comm_->device()), std::get<1>(GetParam()));
    for (int step = 0; step < 100; ++step) {
      model.zero_grad();
      const at::Tensor y = model.forward(random());
      (has_loss ? y.to(at::kFloat).log_softmax(1)[0][0].neg() : y).backward();
      for (const auto& each : model.named_parameters()) EXPECT_TRUE(each.value().grad().defined()) << each.key();
    }
  }

  std::shared_ptr<Communicator> comm_;
  int rank_ = 0, size_ = 1, next_ = 0, before_ = 0;
};

TEST_P(ChainListTest, Cycle) {
  MultiNodeChainList model(comm_);
  if (rank_ == 0) {
    model.add_link(layer(0), {}, next_);
    model.add_link(layer(1, 2), before_);
  } else {
    model.add_link(layer(2), before_, next_);
  }
  train(model, rank_ == 0);
}

TEST_P(ChainListTest, Crossing_from_2_ranks) {
  MultiNodeChainList model(comm_);
  if (rank_ == 0) model.add_link(layer(0), {}, next_);
  model.add_link(layer(1, 2), before_);
  if (rank_ != 0) model.add_link(layer(0), {}, next_);
  train(model);
}

/// Rank 0 is its own child, too, at the position `own` of the list of children; at none if `own` is negative.
class Branching : public ChainListTest {
 protected:
  void branch(int own) const {
    MultiNodeChainList model(comm_);
    if (rank_ == 0) {
      std::vector<int> ranks;
      for (int r = 1; r < size_; ++r) ranks.push_back(r);
      if (own >= 0) ranks.insert(ranks.begin() + std::min(own, size_ - 1), 0);
      model.add_link(layer(0), {}, ranks);
      if (own >= 0) model.add_link(layer(1), 0, 0);
      model.add_link(layer(2), ranks);
    } else {
      model.add_link(layer(3), 0, 0);
    }
    train(model, rank_ == 0);
  }
};

TEST_P(Branching, WithTheOwnRankNowhere_from_2_ranks) { branch(-1); }
TEST_P(Branching, WithTheOwnRankFirst) { branch(0); }
TEST_P(Branching, WithTheOwnRankLast) { branch(size_ - 1); }
TEST_P(Branching, WithTheOwnRankBetween) { branch(size_ / 2); }

TEST_P(ChainListTest, Twisting_from_2_ranks) {
  MultiNodeChainList model(comm_);
  if (rank_ == 0) {
    model.add_link(layer(0), {}, next_);
    model.add_link(layer(1), next_);
  } else if (rank_ + 1 == size_) {
    model.add_link(layer(0), before_);
    model.add_link(layer(1), {}, before_);
  } else {
    model.add_link(layer(0), before_, rank_);
    model.add_link(layer(1), {}, before_);
    model.add_link(layer(2), {}, next_);
    model.add_link(layer(3), next_, rank_);
    model.add_link(layer(4), {rank_, rank_});
  }
  train(model);
}

TEST_P(ChainListTest, TwoOutputsOnPairs_from_2_ranks) {
  if (rank_ % 2 == 0 && rank_ + 1 == size_) return;  // an odd number leaves out the last rank
  MultiNodeChainList model(comm_);
  if (rank_ % 2 == 0) {
    model.add_link(std::make_shared<TwoOutputs>(), {}, next_);
    model.add_link(torch::nn::Linear(kSize, kSize), next_);
  } else {
    model.add_link(std::make_shared<TwoInputs>(), before_, before_);
  }
  train(model, rank_ % 2 == 0);
}

/// Outputs that no loss uses, and integers, must not keep another rank's backward waiting.
TEST_P(ChainListTest, BackwardReachesEveryMessage_from_2_ranks) {
  struct Drops : torch::nn::Module {
    at::Tensor forward(const at::Tensor& x, const at::Tensor& /*unused*/) { return x * 2; }
  };
  struct Integers : torch::nn::Module {
    at::Tensor forward(const at::Tensor& x) { return x.argmax(1); }
  };
  MultiNodeChainList model(comm_);
  if (rank_ == 0) {
    model.add_link(layer(0), {}, {1, 1});
    model.add_link(std::make_shared<Drops>(), {1, 1});
  } else if (rank_ == 1) {
    model.add_link(std::make_shared<Drops>(), {0, 0}, 0);
    model.add_link(std::make_shared<Integers>(), {}, 0);
  } else {
    return;
  }
  model.to(c10::Device(comm_->device()), std::get<1>(GetParam()));
  const at::Tensor y = model.forward(random());
  EXPECT_EQ(y.dim(), rank_ == 0 ? 2 : 0);
  y.sum().backward();
}

INSTANTIATE_TEST_SUITE_P(On, ChainListTest,
                         ::testing::Combine(::testing::ValuesIn(test::kDeviceTypes),
                                            ::testing::Values(at::kHalf, at::kFloat)));
INSTANTIATE_TEST_SUITE_P(On, Branching,
                         ::testing::Combine(::testing::ValuesIn(test::kDeviceTypes),
                                            ::testing::Values(at::kHalf, at::kFloat)));

class ChainListOfOneNetwork : public ::testing::Test {
 protected:
  std::shared_ptr<Communicator> comm_ = test::comm_on_nodes(2);
  int rank_ = comm_->rank(), size_ = comm_->size();
};

/// Rank 0 sends to all ranks, also to itself twice, and adds up what they return.
TEST_F(ChainListOfOneNetwork, BranchesHaveTheGradientsOfOneProcess) {
  const auto in = layer(100), out = layer(101), again = layer(102);
  std::vector<std::shared_ptr<Layer>> children;
  for (int r = 0; r < size_; ++r) children.push_back(layer(r));
  torch::manual_seed(3);
  const at::Tensor x = torch::randn({4, kSize});
  const at::Tensor first = in->forward({x});
  Tensors all = {again->forward({first})};
  for (const auto& child : children) all.push_back(child->forward({first}));
  const at::Tensor expected = out->forward(all);
  expected.square().sum().backward();

  MultiNodeChainList model(comm_);
  std::vector<int> ranks = {0, 0};
  for (int r = 1; r < size_; ++r) ranks.push_back(r);
  if (rank_ == 0) {
    model.add_link(layer(100), {}, ranks);
    model.add_link(layer(102), 0, 0);
    model.add_link(layer(0), 0, 0);
    model.add_link(layer(101), ranks);
  } else {
    model.add_link(layer(rank_), 0, 0);
  }
  const at::Tensor y = model.forward(rank_ == 0 ? x : at::Tensor());
  (rank_ == 0 ? y.square().sum() : y).backward();
  EXPECT_TRUE(rank_ != 0 || torch::allclose(y, expected));
  std::vector<std::shared_ptr<Layer>> own = {children[static_cast<std::size_t>(rank_)]};
  if (rank_ == 0) own = {in, again, children[0], out};
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto wanted = own[i]->named_parameters();
    for (const auto& each : wanted) {
      const at::Tensor found = model.named_parameters()[std::to_string(i) + "." + each.key()].grad();
      EXPECT_TRUE(torch::allclose(found, each.value().grad(), 1e-4, 1e-5)) << i << "." << each.key();
    }
  }
}

TEST_F(ChainListOfOneNetwork, EvaluationHasNoBackward) {
  MultiNodeChainList model(comm_);
  const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  if (rank_ == 0) model.add_link(layer(0), {}, next);
  rank_ == 0 ? model.add_link(layer(1), before) : model.add_link(layer(1), before, next);
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(model.forward(torch::ones({1, kSize})).requires_grad());
}

TEST_F(ChainListOfOneNetwork, WrongListsAreErrorsBeforeAMessage) {
  const auto error = [](const std::string& text) { return ThrowsMessage<ArgumentError>(HasSubstr(text)); };
  MultiNodeChainList model(comm_);
  EXPECT_THAT([&] { model.forward(); }, error("has no component: call add_link"));
  EXPECT_THAT([&] { model.add_link(layer(0), size_); }, error("component 0 has rank " + std::to_string(size_)));
  EXPECT_THAT([&] { model.add_link(layer(0), {}, -1); }, error("component 0 has rank -1: there are ranks 0 to "));
  EXPECT_THAT([&] { model.add_link(layer(0), rank_); }, error("component 0 receives from its own rank"));
  model.add_link(layer(0));
  EXPECT_THAT([&] { model.add_link(layer(1)); }, error("component 1 has no rank_out, but an earlier component"));
  model.add_link(layer(1), {}, rank_);
  EXPECT_THAT([&] { model.forward(torch::ones({1, kSize})); }, error("components send 1 outputs to their own rank"));
  EXPECT_EQ(model.children().size(), 2);

  MultiNodeChainList twice(comm_);
  const torch::nn::Linear shared(3, 3);
  for (int i = 0; i < 2; ++i) twice.add_link(shared, {}, (rank_ + 1) % size_);
  EXPECT_EQ(twice.parameters().size(), 2);

  MultiNodeChainList pair(comm_);
  pair.add_link(std::make_shared<TwoOutputs>());
  EXPECT_EQ(pair.forward_tuple({torch::ones({1, kSize})}).size(), 2);
  EXPECT_THAT([&] { pair.forward(torch::ones({1, kSize})); }, error("returns 2 tensors: call forward_tuple"));
  EXPECT_THAT([&] { pair.forward(); }, error("does not take 0 tensors"));
}

}  // namespace
}  // namespace mn
