// Collective calls with a root, and allgather: ChainerMN's own cases, tensors without gradients, errors.
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/nn/point_to_point.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/nn/on_devices.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Tensors = std::vector<at::Tensor>;
using Comm = std::shared_ptr<Communicator>;

class RootedCollectivesTest : public test::DeviceCases {
 protected:
  [[nodiscard]] at::Tensor here(const at::Tensor& tensor) const { return tensor.to(c10::Device(comm_->device())); }
  /// The part of rank `rank`: the parts of two ranks have different shapes.
  [[nodiscard]] at::Tensor part(int rank, at::ScalarType dtype = at::kFloat) const {
    return here(torch::arange(10 * (rank + 1)).view({10, rank + 1}).remainder(7).to(dtype)).requires_grad_();
  }
};

TEST_P(RootedCollectivesTest, AllgatherTakesPartsOfAnyShapeAndDtype) {
  for (const at::ScalarType dtype : {at::kHalf, at::kFloat, at::kDouble}) {
    const at::Tensor x = part(rank_, dtype);
    const Tensors all = allgather(comm_, x);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(size_));
    at::Tensor error = here(torch::zeros({}));
    for (int r = 0; r < size_; ++r) {
      const at::Tensor& y = all[static_cast<std::size_t>(r)];
      EXPECT_EQ(y.scalar_type(), dtype);
      error = error + (y - part(r, dtype).detach()).square().sum().to(at::kFloat);
      error = error + y.sum().to(at::kFloat) * (rank_ + 1) * 0.5;
    }
    error.backward();
    EXPECT_TRUE(x.grad().equal(torch::full_like(x, 0.25 * size_ * (size_ + 1))));
  }
}

TEST_P(RootedCollectivesTest, GatherGivesDelegatesToAllButTheRoot) {
  for (int root = 0; root < size_; ++root) {
    const at::Tensor x = part(rank_);
    const Tensors all = gather(comm_, x, root);
    if (rank_ == root) {
      ASSERT_EQ(all.size(), static_cast<std::size_t>(size_));
      at::Tensor loss = here(torch::zeros({}));
      for (int r = 0; r < size_; ++r) {
        EXPECT_TRUE(all[static_cast<std::size_t>(r)].equal(part(r)));
        loss = loss + all[static_cast<std::size_t>(r)].sum() * (r + 2);
      }
      loss.backward();
    } else {
      ASSERT_EQ(all.size(), 1);
      EXPECT_EQ(all[0].item<float>(), 0);
      all[0].backward();
    }
    EXPECT_TRUE(x.grad().equal(torch::full_like(x, rank_ + 2)));
  }
}

TEST_P(RootedCollectivesTest, ScatterTakesPartsFromTheRootAlone) {
  for (int root = 0; root < size_; ++root) {
    Tensors parts;
    for (int r = 0; r < size_; ++r) parts.push_back(part(r, r % 2 == 0 ? at::kFloat : at::kDouble));
    const at::Tensor own = scatter(comm_, rank_ == root ? parts : Tensors(), root);
    EXPECT_TRUE(own.equal(parts[static_cast<std::size_t>(rank_)]));
    (own.sum() * (rank_ + 2)).backward();
    for (int r = 0; r < size_ && rank_ == root; ++r) {
      const at::Tensor& x = parts[static_cast<std::size_t>(r)];
      EXPECT_TRUE(x.grad().equal(torch::full_like(x, r + 2)));
    }
  }
}

TEST_P(RootedCollectivesTest, ReduceSumsOnTheRoot) {
  for (int root = 0; root < size_; ++root) {
    const at::Tensor x = part(2).detach().mul(rank_ + 1).requires_grad_();
    const at::Tensor sum = reduce(comm_, x, root);
    if (rank_ == root) {
      EXPECT_TRUE(sum.equal(part(2) * (size_ * (size_ + 1) / 2)));
    } else {
      EXPECT_EQ(sum.item<float>(), 0);
    }
    (sum.sum() * 3).backward();
    EXPECT_TRUE(x.grad().equal(torch::full_like(x, 3)));
  }
}

/// No call of a backward waits, on any rank: nothing was recorded.
TEST_P(RootedCollectivesTest, TensorsWithoutGradientsHaveNoBackward) {
  const at::Tensor x = part(0).detach();
  const Tensors gathered = gather(comm_, x), parts(static_cast<std::size_t>(size_), x);
  const at::Tensor sum = reduce(comm_, x);
  if (rank_ != 0) {
    sum.backward();
    gathered[0].backward();
  }
  EXPECT_EQ(sum.requires_grad(), rank_ != 0);
  EXPECT_FALSE(allgather(comm_, x)[0].requires_grad());
  EXPECT_FALSE(scatter(comm_, parts).requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(reduce(comm_, part(1)).requires_grad());
}

/// Only one rank's tensor needs a gradient. The other ranks take part in backward.
TEST_P(RootedCollectivesTest, OneRankAloneMayNeedAGradient) {
  for (int one = 0; one < size_; ++one) {
    const at::Tensor x = part(0).detach().requires_grad_(rank_ == one);
    const Tensors gathered = gather(comm_, x), parts(static_cast<std::size_t>(size_), x);
    const at::Tensor loss = pseudo_connect(gathered[0], reduce(comm_, x).sum() + allgather(comm_, x)[0].sum());
    (loss + scatter(comm_, parts, one).sum()).backward();
    EXPECT_EQ(x.grad().defined(), rank_ == one);
    // from reduce, from all ranks' allgather of rank 0's tensor, and from all ranks' parts
    if (rank_ == one) {
      EXPECT_TRUE(x.grad().equal(torch::full_like(x, 1 + (one == 0 ? size_ : 0) + size_)));
    }
  }
}

TEST_P(RootedCollectivesTest, WrongArgumentsAreTheSameErrorOnAllRanks_from_2_ranks) {
  const at::Tensor x = part(0);
  const at::Tensor at_one = rank_ == 1 ? at::Tensor() : x;
  const Tensors too_few(1, x), parts(static_cast<std::size_t>(size_), x);
  const auto text = [](const char* message) { return ThrowsMessage<ArgumentError>(HasSubstr(message)); };
  EXPECT_THAT([&] { static_cast<void>(gather(comm_, at_one)); }, text("gather: rank 1 gave no tensor"));
  EXPECT_THAT([&] { static_cast<void>(allgather(comm_, at_one)); }, text("allgather: rank 1 gave no tensor"));
  EXPECT_THAT([&] { static_cast<void>(reduce(comm_, rank_ == 1 ? part(1) : x)); },
              text("reduce: rank 0 gave Float [10,1], rank 1 Float [10,2]"));
  EXPECT_THAT([&] { static_cast<void>(scatter(comm_, too_few, 1)); }, text("scatter: rank 1 gave 1 tensors"));
  EXPECT_THAT([&] { static_cast<void>(gather(comm_, x, rank_)); }, text("gather: rank 0 gave root 0, rank 1 root 1"));
  EXPECT_THAT([&] { static_cast<void>(scatter(comm_, parts, -1)); }, text("scatter: the root -1 is not a rank"));
  EXPECT_THAT([&] { static_cast<void>(reduce(comm_, x, size_)); }, text("reduce: the root "));
  EXPECT_THAT([&] { static_cast<void>(broadcast(comm_, x, size_)); }, text("broadcast: the root "));
}

INSTANTIATE_TEST_SUITE_P(On, RootedCollectivesTest, ::testing::ValuesIn(test::kDeviceTypes), test::name_of_device);

}  // namespace
}  // namespace mn
