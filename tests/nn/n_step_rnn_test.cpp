// Recurrent networks over sequences whose parts lie on several ranks: the gradients of one process, ChainerMN's cases.
#include <memory>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/nn/n_step_rnn.hpp>
#include <mn/nn/point_to_point.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/nn/on_devices.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Tensors = std::vector<at::Tensor>;

class NStepRnnTest : public test::DeviceCases {
 protected:
  void SetUp() override {
    DeviceCases::SetUp();
    if (IsSkipped()) return;
    if (device().is_privateuseone()) GTEST_SKIP() << "the test device lacks libtorch's fused recurrent cells";
    if (rank_ > 0) before_ = rank_ - 1;
    if (rank_ + 1 < size_) next_ = rank_ + 1;
  }
  [[nodiscard]] c10::Device device() const { return c10::Device(comm_->device()); }

  /// Each rank has a part of the sequences' steps, of a length of its own.
  template <class Rnn>
  void compare_with_one_process(std::int64_t hidden) const {
    torch::manual_seed(7);
    Rnn whole(3, hidden);
    torch::manual_seed(7);
    auto own = create_multi_node_n_step_rnn(Rnn(3, hidden), comm_, before_, next_);
    whole->to(device(), at::kDouble), own->to(device(), at::kDouble);
    Tensors parts;
    for (int r = 0; r < size_; ++r) parts.push_back(torch::randn({r % 3 + 1, 2, 3}, at::kDouble).to(device()));
    const at::Tensor expected = std::get<0>(whole->forward(torch::cat(parts)));
    expected.square().sum().backward();

    const auto result = own->forward(parts[static_cast<std::size_t>(rank_)]);
    pseudo_connect(result.delegate, result.output.square().sum()).backward();
    std::int64_t begin = 0;
    for (int r = 0; r < rank_; ++r) begin += r % 3 + 1;
    EXPECT_TRUE(torch::allclose(result.output, expected.narrow(0, begin, rank_ % 3 + 1)));
    EXPECT_EQ(result.delegate.defined(), next_.has_value());
    // Each rank has the gradient of its steps: the sum over ranks is the whole network's.
    for (std::size_t i = 0; i < whole->parameters().size(); ++i) {
      const at::Tensor sum = own->parameters()[i].grad().cpu().contiguous();
      comm_->allreduce(sum);
      EXPECT_TRUE(torch::allclose(sum, whole->parameters()[i].grad().cpu())) << i;
    }
  }

  std::optional<int> before_, next_;
};

TEST_P(NStepRnnTest, HasTheGradientsOfOneProcess) {
  for (const std::int64_t hidden : {1, 5, 20}) {
    compare_with_one_process<torch::nn::LSTM>(hidden);
    compare_with_one_process<torch::nn::GRU>(hidden);
    compare_with_one_process<torch::nn::RNN>(hidden);
  }
}

/// An embedding, an LSTM with dropout, two linear layers, as in ChainerMN's tests; `hidden` may differ between ranks.
struct Net : torch::nn::Module {
  Net(std::int64_t hidden, const std::shared_ptr<Communicator>& comm, std::optional<int> before,
      std::optional<int> next)
      : rnn(register_module(
            "rnn", create_multi_node_n_step_rnn(torch::nn::LSTM(torch::nn::LSTMOptions(10, 10).dropout(0.1)), comm,
                                                before, next))),
        second(register_module("second", torch::nn::Linear(10, hidden))),
        third(register_module("third", torch::nn::Linear(hidden, 1))) {}
  at::Tensor forward(const Tensors& words, const at::Tensor& target) {
    Tensors embedded;
    for (const at::Tensor& each : words) embedded.push_back(first->forward(each));
    const auto result = rnn->forward(torch::nn::utils::rnn::pack_sequence(embedded, /*enforce_sorted=*/false));
    const at::Tensor y = third->forward(second->forward(result.output.data())).sum();
    return pseudo_connect(result.delegate, (y - target).square());
  }
  torch::nn::Embedding first = register_module("first", torch::nn::Embedding(8, 10));
  std::shared_ptr<MultiNodeNStepRnn<torch::nn::LSTM>> rnn;
  torch::nn::Linear second, third;
};

TEST_P(NStepRnnTest, SequencesOfOtherLengthsOnEachRank) {
  for (const std::int64_t hidden : {2, 10 * (rank_ + 1)}) {
    Net net(hidden, comm_, before_, next_);
    net.to(device());
    torch::manual_seed(rank_);
    for (int i = 0; i < 20; ++i) {
      Tensors words;
      for (int k = 0; k < 1 + i % 2; ++k)
        words.push_back(torch::randint(0, 8, {torch::randint(5, 11, {1}).item<std::int64_t>()}).to(device()));
      net.zero_grad();
      net.forward(words, torch::rand({}).to(device())).backward();
      for (const auto& each : net.named_parameters()) EXPECT_TRUE(each.value().grad().defined()) << each.key();
    }
  }
}

TEST_P(NStepRnnTest, StatesOfAnotherKindAreAnError_from_2_ranks) {
  const at::Tensor x = torch::ones({1, 1, 3}).to(device());
  if (rank_ == 0) {
    auto rnn = create_multi_node_n_step_rnn(torch::nn::GRU(3, 2), comm_, {}, 1);
    rnn->to(device());
    static_cast<void>(rnn->forward(x));
  } else if (rank_ == 1) {
    auto rnn = create_multi_node_n_step_rnn(torch::nn::LSTM(3, 2), comm_, 0);
    rnn->to(device());
    EXPECT_THAT([&] { static_cast<void>(rnn->forward(x)); },
                ThrowsMessage<CommError>(HasSubstr("rank 0 sent 1 tensors, but this network has 2 states")));
  }
}

INSTANTIATE_TEST_SUITE_P(On, NStepRnnTest, ::testing::ValuesIn(test::kDeviceTypes), test::name_of_device);

}  // namespace
}  // namespace mn
