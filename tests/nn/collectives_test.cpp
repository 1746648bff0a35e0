// Collective calls that gradients pass through: values, gradients against one graph of all ranks, weights, errors.
#include <functional>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Tensors = std::vector<at::Tensor>;

class CollectivesTest : public ::testing::Test {
 protected:
  std::shared_ptr<Communicator> comm_ = create_communicator("auto", MPI_COMM_WORLD, {.device = Device{}});
  int rank_ = comm_->rank();
  int size_ = comm_->size();

  /// What each rank gives: `count` tensors of rank r, whose rows `rows(r, i)` says; the same values on every rank.
  [[nodiscard]] std::vector<Tensors> inputs(int count, const std::function<std::int64_t(int, int)>& rows) const {
    torch::manual_seed(11);
    std::vector<Tensors> all(static_cast<std::size_t>(size_));
    for (int r = 0; r < size_; ++r) {
      for (int i = 0; i < count; ++i)
        all[static_cast<std::size_t>(r)].push_back(
            torch::randint(-4, 5, {rows(r, i), 3}).to(at::kDouble).requires_grad_());
    }
    return all;
  }
  /// Small factors that depend on rank and element.
  [[nodiscard]] static at::Tensor loss_of(const at::Tensor& output, int rank) {
    return (output.flatten() * (torch::arange(output.numel()).to(at::kDouble) % 7 + rank)).sum();
  }
  /// The gradients of this rank's inputs, for the sum of the losses of all ranks, that one graph gives.
  [[nodiscard]] Tensors expected(const at::Tensor& loss, const Tensors& own) const {
    loss.backward();
    Tensors result;
    for (const at::Tensor& x : own) {
      result.push_back(x.grad().defined() ? x.grad().clone() : torch::zeros_like(x));
      x.mutable_grad().reset();
    }
    return result;
  }
  void expect_gradients(const Tensors& own, const Tensors& wanted) const {
    for (std::size_t i = 0; i < own.size(); ++i) {
      ASSERT_TRUE(own[i].grad().defined());
      EXPECT_TRUE(own[i].grad().equal(wanted[i])) << own[i].grad() << wanted[i];
    }
  }
};

TEST_F(CollectivesTest, AllGatherTakesUnevenAndEmptyParts) {
  for (const auto& rows : {std::function([](int, int) { return std::int64_t{2}; }), std::function([](int r, int) {
                             return static_cast<std::int64_t>(r * 2);  // none on rank 0
                           }),
                           std::function([](int, int) { return std::int64_t{0}; })}) {
    const auto all = inputs(1, rows);
    Tensors parts;
    for (const Tensors& each : all) parts.push_back(each[0]);
    const at::Tensor whole = torch::cat(parts);
    at::Tensor loss = torch::zeros({}, at::kDouble).requires_grad_();
    for (int r = 0; r < size_; ++r) loss = loss + loss_of(whole, r);
    const Tensors& own = all[static_cast<std::size_t>(rank_)];
    const Tensors wanted = expected(loss, own);
    const at::Tensor found = all_gather(comm_, own[0]);
    EXPECT_TRUE(found.equal(whole));
    loss_of(found, rank_).backward();
    expect_gradients(own, wanted);
  }
}

/// A penalty on gradients, which each rank takes of its own inputs.
class GradientsOfGradientsTest : public CollectivesTest {
 protected:
  using All = std::vector<Tensors>;
  /// A collective call, and its outputs on a rank as one graph of all ranks computes them.
  struct Case {
    int count;
    std::function<std::int64_t(int, int)> rows;
    std::function<Tensors(const Tensors& own)> call;
    std::function<Tensors(const All& all, int rank)> in_one_graph;
  };

  [[nodiscard]] static Tensors firsts(const All& all) { return sent_to(all, 0); }
  [[nodiscard]] static Tensors sent_to(const All& all, int rank) {
    Tensors result;
    for (const Tensors& each : all) result.push_back(each[static_cast<std::size_t>(rank)]);
    return result;
  }
  [[nodiscard]] std::vector<Case> cases() {
    return {
        {1, [](int r, int) { return 2 * r; }, [&](const Tensors& own) { return Tensors{all_gather(comm_, own[0])}; },
         [](const All& all, int) { return Tensors{torch::cat(firsts(all))}; }},
        {1, [](int, int) { return 4; }, [&](const Tensors& own) { return Tensors{all_reduce(comm_, own[0])}; },
         [](const All& all, int) { return Tensors{torch::stack(firsts(all)).sum(0)}; }},
        {size_, [](int, int i) { return i; }, [&](const Tensors& own) { return Tensors{reduce_scatter(comm_, own)}; },
         [](const All& all, int rank) { return Tensors{torch::stack(sent_to(all, rank)).sum(0)}; }},
        {size_, [](int r, int i) { return r + i; }, [&](const Tensors& own) { return alltoall(comm_, own); }, sent_to},
        {1, [](int r, int) { return r; }, [&](const Tensors& own) { return allgather(comm_, own[0]); },
         [](const All& all, int) { return firsts(all); }},
        {1, [](int r, int) { return r; }, [&](const Tensors& own) { return gather(comm_, own[0], size_ - 1); },
         [&](const All& all, int rank) { return rank == size_ - 1 ? firsts(all) : Tensors(); }},
        {1, [](int, int) { return 2; }, [&](const Tensors& own) { return Tensors{reduce(comm_, own[0], size_ - 1)}; },
         [&](const All& all, int rank) {
           return rank == size_ - 1 ? Tensors{torch::stack(firsts(all)).sum(0)} : Tensors();
         }}};
  }

  [[nodiscard]] static at::Tensor powers(const Tensors& outputs, int rank, int exponent) {
    at::Tensor sum = torch::zeros({}, at::kDouble);
    for (const at::Tensor& output : outputs) {
      const at::Tensor power =
          exponent == 1 ? output : output.pow(exponent);  // pow(1) would not be linear for autograd
      sum = sum + power.sum() * (rank + 1);
    }
    return sum;
  }
  [[nodiscard]] static at::Tensor penalty(const at::Tensor& loss, const Tensors& leaves) {
    at::Tensor sum = torch::zeros({}, at::kDouble);
    for (const at::Tensor& gradient : torch::autograd::grad({loss}, leaves, {}, true, /*create_graph=*/true))
      sum = sum + gradient.square().sum();
    return sum;
  }
  /// The loss of rank r is a sum of powers with exponent(r).
  void expect_gradients_of_one_graph(const std::function<int(int r)>& exponent) {
    for (const Case& each : cases()) {
      const All all = inputs(each.count, each.rows);
      const Tensors& own = all[static_cast<std::size_t>(rank_)];
      at::Tensor loss = torch::zeros({}, at::kDouble);
      Tensors leaves;
      for (int r = 0; r < size_; ++r) {
        const Tensors& theirs = all[static_cast<std::size_t>(r)];
        loss = loss + powers(each.in_one_graph(all, r), r, exponent(r));
        leaves.insert(leaves.end(), theirs.begin(), theirs.end());
      }
      const Tensors wanted = expected(penalty(loss, leaves), own);
      penalty(powers(each.call(own), rank_, exponent(rank_)), own).backward();
      expect_gradients(own, wanted);
    }
  }
};

TEST_F(GradientsOfGradientsTest, AreThoseOfOneGraph) {
  expect_gradients_of_one_graph([](int) { return 3; });
}

/// The gradients of a linear loss are constants. Its rank takes part in the second backward all the same.
TEST_F(GradientsOfGradientsTest, AreThoseOfOneGraphIfOtherRanksHaveLinearLosses) {
  expect_gradients_of_one_graph([&](int r) { return r == size_ - 1 ? 3 : 1; });
}

/// Gradients of float16 tensors are sent as float32.
TEST_F(CollectivesTest, GradientsOfGradientsPassThroughHalves) {
  const std::vector<std::pair<int, std::function<Tensors(const at::Tensor& x)>>> cases = {
      {size_, [&](const at::Tensor& x) { return allgather(comm_, x); }},
      {1, [&](const at::Tensor& x) { return gather(comm_, x); }},
      {size_, [&](const at::Tensor& x) { return alltoall(comm_, Tensors(static_cast<std::size_t>(size_), x)); }}};
  for (const auto& [receivers, call] : cases) {
    const at::Tensor x = torch::ones({2}, at::kHalf).requires_grad_();
    at::Tensor loss = torch::zeros({});
    for (const at::Tensor& y : call(x)) loss = loss + y.to(at::kFloat).pow(3).sum();
    torch::autograd::grad({loss}, {x}, {}, true, /*create_graph=*/true)[0].square().sum().backward();
    EXPECT_TRUE(x.grad().equal(torch::full_like(x, 36 * receivers * receivers))) << x.grad();
  }
}

/// The ranks that get the tensor have no input whose gradient leads to the root's.
TEST_F(CollectivesTest, GradientsOfGradientsOfABroadcastOrScatterAreAnError) {
  const at::Tensor x = torch::ones({2}, at::kDouble).requires_grad_();
  const Tensors parts(static_cast<std::size_t>(size_), x);
  const at::Tensor loss = broadcast(comm_, x).square().sum(), of_parts = scatter(comm_, parts).square().sum();
  EXPECT_THAT([&] { loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true); },
              ThrowsMessage<ArgumentError>(HasSubstr("broadcast: its gradients can't be differentiated")));
  EXPECT_THAT([&] { of_parts.backward({}, /*retain_graph=*/true, /*create_graph=*/true); },
              ThrowsMessage<ArgumentError>(HasSubstr("scatter: its gradients can't be differentiated")));
  loss.backward();
  EXPECT_EQ(x.grad().defined(), rank_ == 0);
}

TEST_F(CollectivesTest, AllReduceSums) {
  const auto all = inputs(1, [](int, int) { return 4; });
  at::Tensor sum = torch::zeros({4, 3}, at::kDouble), loss = torch::zeros({}, at::kDouble);
  for (const Tensors& each : all) sum = sum + each[0];
  for (int r = 0; r < size_; ++r) loss = loss + loss_of(sum, r);
  const Tensors& own = all[static_cast<std::size_t>(rank_)];
  const Tensors wanted = expected(loss, own);
  const at::Tensor found = all_reduce(comm_, own[0]);
  EXPECT_TRUE(found.equal(sum));
  loss_of(found, rank_).backward();
  expect_gradients(own, wanted);
}

TEST_F(CollectivesTest, ReduceScatterTakesUnevenAndEmptyParts) {
  for (const bool even : {true, false}) {
    const auto all = inputs(size_, [even](int, int i) { return even ? 3 : i * 2; });
    Tensors sums;
    at::Tensor loss = torch::zeros({}, at::kDouble).requires_grad_();
    for (std::size_t r = 0; r < all.size(); ++r) {
      at::Tensor sum = torch::zeros_like(all[0][r]);
      for (const Tensors& each : all) sum = sum + each[r];
      loss = loss + loss_of(sum, static_cast<int>(r));
      sums.push_back(sum);
    }
    const Tensors& own = all[static_cast<std::size_t>(rank_)];
    const Tensors wanted = expected(loss, own);
    const at::Tensor found = reduce_scatter(comm_, own);
    EXPECT_TRUE(found.equal(sums[static_cast<std::size_t>(rank_)]));
    loss_of(found, rank_).backward();
    expect_gradients(own, wanted);
  }
}

TEST_F(CollectivesTest, BroadcastSumsOnTheRoot) {
  const int root = size_ - 1;
  const auto all = inputs(1, [](int r, int) { return r + 1; });
  const at::Tensor& source = all[static_cast<std::size_t>(root)][0];
  at::Tensor loss = torch::zeros({}, at::kDouble);
  for (int r = 0; r < size_; ++r) loss = loss + loss_of(source, r);
  const Tensors wanted = expected(loss, {source});
  const at::Tensor found = broadcast(comm_, rank_ == root ? source : at::Tensor(), root);
  EXPECT_TRUE(found.equal(source));
  loss_of(found, rank_).backward();
  if (rank_ == root) expect_gradients({source}, wanted);
}

TEST_F(CollectivesTest, AlltoallSendsGradientsBack) {
  const auto all = inputs(size_, [](int r, int i) { return (r + 2 * i) % 3; });
  at::Tensor loss = torch::zeros({}, at::kDouble).requires_grad_();
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (const Tensors& each : all) loss = loss + loss_of(each[r], static_cast<int>(r));
  }
  const Tensors& own = all[static_cast<std::size_t>(rank_)];
  const Tensors wanted = expected(loss, own);
  const Tensors found = alltoall(comm_, own);
  at::Tensor own_loss = torch::zeros({}, at::kDouble);
  for (std::size_t r = 0; r < found.size(); ++r) {
    EXPECT_TRUE(found[r].equal(all[r][static_cast<std::size_t>(rank_)]));
    own_loss = own_loss + loss_of(found[r], rank_);
  }
  own_loss.backward();
  expect_gradients(own, wanted);
}

/// Every rank takes part in backward, also one whose tensor needs no gradient.
TEST_F(CollectivesTest, OneRankMayNeedNoGradient) {
  const at::Tensor own = torch::ones({2, 3}).requires_grad_(rank_ != 0 || size_ == 1);
  all_gather(comm_, own).sum().backward();
  EXPECT_EQ(own.grad().defined(), own.requires_grad());
  const at::Tensor ones = torch::full({2, 3}, static_cast<double>(size_));
  EXPECT_TRUE(!own.requires_grad() || own.grad().equal(ones));
  EXPECT_FALSE(all_gather(comm_, own.detach()).requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(all_gather(comm_, own).requires_grad());
}

TEST_F(CollectivesTest, AMismatchIsTheSameErrorOnAllRanks_from_2_ranks) {
  EXPECT_THAT(
      [&] {
        static_cast<void>(all_gather(comm_, torch::ones({2, rank_ == 1 ? 4 : 3})));
      },
      ThrowsMessage<ArgumentError>(
          HasSubstr("all_gather: rank 0 gave Float [2,3], rank 1 Float [2,4]: all but the first dimension")));
  EXPECT_THAT([&] { static_cast<void>(all_reduce(comm_, torch::ones({rank_ == 1 ? 4 : 3}))); },
              ThrowsMessage<ArgumentError>(HasSubstr("all_reduce: rank 0 gave Float [3], rank 1 Float [4]")));
  EXPECT_THAT([&] { static_cast<void>(broadcast(comm_, at::Tensor(), 1)); },
              ThrowsMessage<ArgumentError>(HasSubstr("root 1: that rank gave no tensor")));
  EXPECT_THROW(static_cast<void>(alltoall(comm_, {})), ArgumentError);
  // What rank 1 alone gives.
  const at::Tensor eye = torch::eye(2), odd = rank_ == 1 ? eye.to_sparse() : eye;
  const std::vector<at::Tensor> parts(static_cast<std::size_t>(rank_ == 1 ? size_ + 1 : size_), eye);
  for (const auto& gather : {all_gather, all_reduce}) {
    EXPECT_THAT([&] { static_cast<void>(gather(comm_, odd)); },
                ThrowsMessage<ArgumentError>(HasSubstr(": rank 1 gave a sparse tensor: give its to_dense()")));
  }
  EXPECT_THAT([&] { static_cast<void>(broadcast(comm_, odd, 1)); },
              ThrowsMessage<ArgumentError>(HasSubstr("broadcast: rank 1 gave a sparse tensor")));
  EXPECT_TRUE(broadcast(comm_, odd, 0).equal(eye));
  std::vector<at::Tensor> one_complex(static_cast<std::size_t>(size_), eye);
  if (rank_ == 1) one_complex[0] = eye.to(at::kComplexFloat);  // a third rank would neither send nor receive this part
  EXPECT_THAT([&] { static_cast<void>(alltoall(comm_, one_complex)); },
              ThrowsMessage<ArgumentError>(HasSubstr("alltoall: rank 1 gave a tensor of dtype ComplexFloat: convert")));
  EXPECT_THAT([&] { static_cast<void>(broadcast(comm_, eye, rank_ == 1 ? 1 : 0)); },
              ThrowsMessage<ArgumentError>(HasSubstr("broadcast: rank 0 gave root 0, rank 1 root 1")));
  EXPECT_THAT(
      [&] { static_cast<void>(alltoall(comm_, parts)); },
      ThrowsMessage<ArgumentError>(HasSubstr("alltoall: rank 1 gave " + std::to_string(size_ + 1) + " tensors")));
  EXPECT_THAT([&] { static_cast<void>(reduce_scatter(comm_, parts)); },
              ThrowsMessage<ArgumentError>(HasSubstr("reduce_scatter: rank 1 gave " + std::to_string(size_ + 1))));
  std::vector<at::Tensor> one_long(static_cast<std::size_t>(size_), eye);
  if (rank_ == 1) one_long[1] = torch::arange(2);
  EXPECT_THAT([&] { static_cast<void>(reduce_scatter(comm_, one_long)); },
              ThrowsMessage<ArgumentError>(HasSubstr("reduce_scatter: rank 0 gave Float [2,2], rank 1 Long [2]")));
}

}  // namespace
}  // namespace mn
