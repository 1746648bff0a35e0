// Messages that gradients pass through: a network whose layers lie on several ranks against one process, tuples,
// tensors without gradients, numeric gradients.
#include <functional>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/nn/point_to_point.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/nn/on_devices.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Tensors = std::vector<at::Tensor>;

class PointToPointTest : public test::DeviceCases {
 protected:
  [[nodiscard]] at::Tensor here(const at::Tensor& tensor) const { return tensor.to(c10::Device(comm_->device())); }
  /// The weight of layer `rank` of a network.
  [[nodiscard]] at::Tensor weight_of(int rank, at::ScalarType dtype) const {
    return here(torch::arange(100).view({10, 10}).to(dtype) / (100.0 * (rank + 1))).requires_grad_();
  }
  [[nodiscard]] at::Tensor input(at::ScalarType dtype) const { return here(torch::arange(10).to(dtype) / 10); }

  /// A layer on each rank, in a ring that begins and ends on rank 0, which has the loss. Returns the output on rank 0.
  [[nodiscard]] at::Tensor backward_around(const at::Tensor& weight) const {
    const auto layer = [&](const at::Tensor& x) { return torch::sigmoid(weight.mv(x)); };
    const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
    if (rank_ != 0) {
      send(layer(recv(comm_, before)), comm_, next).backward();
      return {};
    }
    const at::Tensor delegate = send(layer(input(weight.scalar_type())), comm_, next);
    const at::Tensor output = recv(comm_, before, delegate);
    output.sum().backward();
    return output;
  }
};

TEST_P(PointToPointTest, ARingGivesTheGradientsOfOneNetwork_from_2_ranks) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    Tensors all;
    at::Tensor expected = input(dtype);
    for (int r = 0; r < size_; ++r) {
      all.push_back(weight_of(r, dtype));
      expected = torch::sigmoid(all.back().mv(expected));
    }
    expected.sum().backward();
    const at::Tensor own = weight_of(rank_, dtype);
    for (int step = 0; step < 3; ++step) {
      own.mutable_grad().reset();
      const at::Tensor output = backward_around(own);
      if (rank_ == 0) {
        EXPECT_TRUE(output.equal(expected));
      }
      EXPECT_TRUE(torch::allclose(own.grad(), all[static_cast<std::size_t>(rank_)].grad(), 1e-6, 1e-12));
    }
  }
}

/// Each element of rank 0's input is moved by a little in both directions.
TEST_P(PointToPointTest, GradientsAreThoseOfDifferences_from_2_ranks) {
  const auto loss_of = [&](const at::Tensor& x) {
    at::Tensor value = x;
    Tensors delegates;
    if (rank_ > 0) value = recv(comm_, rank_ - 1);
    value = torch::sin(value * (rank_ + 1)).cumsum(0);
    return rank_ + 1 < size_ ? send(value, comm_, rank_ + 1) : value.pow(3).sum();
  };
  const at::Tensor x = here(torch::tensor({0.3, -1.2, 0.7}, at::kDouble)).requires_grad_();
  loss_of(x).backward();
  constexpr double kStep = 1e-6;
  for (int i = 0; i < 3; ++i) {
    at::Tensor differences = torch::zeros(1, at::kDouble);
    for (const int sign : {1, -1}) {
      const at::NoGradGuard no_grad;
      at::Tensor moved = x.detach().clone();
      moved[i] += sign * kStep;
      const at::Tensor loss = loss_of(moved);
      if (rank_ + 1 == size_) differences += sign * loss.cpu();
    }
    comm_->bcast(differences, size_ - 1);
    if (rank_ == 0) {
      EXPECT_NEAR(x.grad()[i].item<double>(), differences.item<double>() / (2 * kStep), 1e-6);
    }
  }
}

TEST_P(PointToPointTest, TuplesKeepShapesDtypesAndGradients_from_2_ranks) {
  for (const int tag : {0, 4}) {
    const at::Tensor a = here(torch::arange(6).view({2, 3}).to(at::kHalf)).requires_grad_();
    const at::Tensor b = here(torch::tensor(2.0, at::kDouble)).requires_grad_();
    const Tensors tensors = {a.t(), here(torch::arange(4)), b, here(torch::empty({0, 2})), here(torch::ones(2))};
    if (rank_ == 0) send(tensors, comm_, 1, tag).backward();
    if (rank_ != 0 && rank_ != 1) continue;
    if (rank_ == 1) {
      const Tensors found = recv_tuple(comm_, 0, {}, tag);
      ASSERT_EQ(found.size(), tensors.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].scalar_type(), tensors[i].scalar_type());
        EXPECT_TRUE(found[i].equal(tensors[i])) << i;
        EXPECT_EQ(found[i].requires_grad(), tensors[i].requires_grad()) << i;
      }
      (found[0].sum().to(at::kDouble) * 3 + found[2] * 5).backward();
    } else {
      EXPECT_EQ(a.grad().scalar_type(), at::kHalf);
      EXPECT_TRUE(a.grad().equal(torch::full_like(a, 3)));
      EXPECT_EQ(b.grad().item<double>(), 5);
    }
  }
}

/// The receiver's backward sends nothing, so it does not wait for a sender that runs none.
TEST_P(PointToPointTest, ATensorWithoutGradientIsNoPartOfBackward_from_2_ranks) {
  const at::Tensor x = here(torch::ones({3}));
  if (rank_ == 0) {
    const at::Tensor delegate = send(x, comm_, 1);
    delegate.backward();
    EXPECT_EQ(delegate.item<float>(), 0);
  }
  if (rank_ == 1) {
    const at::Tensor own = here(torch::ones({3})).requires_grad_();
    const at::Tensor delegate = here(torch::zeros({})).requires_grad_();
    const at::Tensor found = recv(comm_, 0, delegate);
    EXPECT_TRUE(found.requires_grad());  // by the delegate
    (found * own).sum().backward();
    EXPECT_TRUE(own.grad().equal(x));
    EXPECT_EQ(delegate.grad().item<float>(), 0);
  }
  const at::NoGradGuard no_grad;
  const at::Tensor y = here(torch::ones({3}).requires_grad_());
  if (rank_ == 0) {
    EXPECT_FALSE(send(y, comm_, 1).requires_grad());
  }
  if (rank_ == 1) {
    EXPECT_FALSE(recv(comm_, 0).requires_grad());
  }
}

/// As by a ReLU with inplace(true), the first layer of a rank.
TEST_P(PointToPointTest, ReceivedTensorsCanBeModifiedInPlace_from_2_ranks) {
  const at::Tensor x = here(torch::tensor({-1.0, 2.0})).requires_grad_();
  if (rank_ == 0) {
    const at::Tensor delegate = send({x * 2, x * 3}, comm_, 1);
    at::Tensor y = recv(comm_, 1, delegate);
    torch::relu_(y).sum().backward();
    EXPECT_TRUE(x.grad().equal(here(torch::tensor({0.0, 25.0})))) << x.grad();
  } else if (rank_ == 1) {
    Tensors all = recv_tuple(comm_, 0);
    for (at::Tensor& each : all) torch::relu_(each);
    send(all[0] * 5 + all[1] * 5, comm_, 0).backward();
  }
}

TEST_P(PointToPointTest, GradientsGoBackToAnySource_from_2_ranks) {
  if (rank_ != 0) {
    const at::Tensor x = here(torch::full({2}, rank_)).to(at::kDouble).requires_grad_();
    send({x, x * 2}, comm_, 0).backward();
    EXPECT_TRUE(x.grad().equal(here(torch::full({2}, 5 * rank_)).to(at::kDouble))) << x.grad();
    return;
  }
  at::Tensor loss = here(torch::zeros({}, at::kDouble));
  for (int i = 1; i < size_; ++i) {
    const Tensors all = recv_tuple(comm_, Communicator::kAnySource);
    loss = loss + (all[0] + all[1] * 2).sum() * all[0][0].item<double>();
  }
  loss.backward();
}

TEST_P(PointToPointTest, PseudoConnectKeepsValuesAndRunsTheDelegate) {
  for (const at::ScalarType dtype : {at::kHalf, at::kFloat, at::kDouble}) {
    const at::Tensor delegate = here(torch::ones({})).requires_grad_();
    const at::Tensor x = here(torch::arange(3).to(dtype)).requires_grad_();
    const at::Tensor scalar = here(torch::tensor(4).to(dtype)).requires_grad_(), ids = here(torch::arange(2));
    EXPECT_TRUE(pseudo_connect(delegate, x).equal(x));
    const Tensors all = pseudo_connect(delegate, Tensors{x, ids, scalar});
    ASSERT_EQ(all.size(), 3);
    EXPECT_TRUE(all[0].equal(x) && all[1].is_same(ids) && all[2].equal(scalar));
    EXPECT_EQ(all[2].scalar_type(), dtype);
    (all[0].sum() * 2 + all[2]).backward();
    EXPECT_TRUE(x.grad().equal(torch::full_like(x, 2)));
    EXPECT_EQ(scalar.grad().item<float>(), 1);
    EXPECT_EQ(delegate.grad().item<float>(), 0);
  }
}

TEST_P(PointToPointTest, WrongUseIsAnError_from_2_ranks) {
  const at::Tensor x = here(torch::ones({3})).requires_grad_();
  EXPECT_THROW(static_cast<void>(send(Tensors{}, comm_, (rank_ + 1) % size_)), ArgumentError);
  EXPECT_THROW(static_cast<void>(send(at::Tensor(), comm_, (rank_ + 1) % size_)), ArgumentError);
  const auto error = [](const std::string& text) { return ThrowsMessage<ArgumentError>(HasSubstr(text)); };
  const at::Tensor sparse = torch::eye(2).to_sparse();
  EXPECT_THAT([&] { static_cast<void>(send(sparse, comm_, (rank_ + 1) % size_)); }, error("to_dense()"));
  EXPECT_THAT([&] { static_cast<void>(send(torch::ones(1), nullptr, 0)); }, error("send: there is no communicator"));
  EXPECT_THAT([&] { static_cast<void>(recv(nullptr, 0)); }, error("recv: there is no communicator"));
  EXPECT_THAT([&] { static_cast<void>(recv(comm_, (rank_ + 1) % size_, {}, Communicator::kAnyTag)); },
              ThrowsMessage<ArgumentError>(HasSubstr("recv: give the sender's tag")));
  if (rank_ == 0) static_cast<void>(send({x, x}, comm_, 1));
  if (rank_ == 1) {
    EXPECT_THAT([&] { static_cast<void>(recv(comm_, 0)); },
                ThrowsMessage<CommError>(HasSubstr("recv: rank 0 sent 2 tensors: call recv_tuple")));
  }
  const auto differentiate = [](const at::Tensor& loss) { loss.backward({}, std::nullopt, /*create_graph=*/true); };
  if (rank_ == 0) {
    EXPECT_THAT([&] { differentiate(send(x, comm_, 1)); },
                ThrowsMessage<ArgumentError>(HasSubstr("send: its gradients can't be differentiated")));
  }
  if (rank_ == 1) {
    EXPECT_THAT([&] { differentiate(recv(comm_, 0).sum()); },
                ThrowsMessage<ArgumentError>(HasSubstr("recv: its gradients can't be differentiated")));
  }
}

INSTANTIATE_TEST_SUITE_P(On, PointToPointTest, ::testing::ValuesIn(test::kDeviceTypes), test::name_of_device);

}  // namespace
}  // namespace mn
