// Every differentiable call: its gradients against differences, in float64, and a rank that stays away.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/nn/chain_list.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/nn/point_to_point.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/nn/on_devices.hpp"

namespace mn {
namespace {

using Tensors = std::vector<at::Tensor>;
using Comm = std::shared_ptr<Communicator>;

/// A function, and how many tensors of how many rows each rank passes.
struct Checked {
  std::string name;
  std::function<Tensors(const Comm& comm, const Tensors& own)> call;
  std::function<int(int size)> count = [](int) { return 1; };
  std::function<std::int64_t(int rank, int i)> rows = [](int, int) { return 2; };
};

/// A ring: rank 0 sends first, all other ranks receive first.
Tensors around(const Comm& comm, const Tensors& own) {
  const int next = (comm->rank() + 1) % comm->size(), before = (comm->rank() + comm->size() - 1) % comm->size();
  if (comm->size() == 1) return own;
  if (comm->rank() == 0) {
    const at::Tensor delegate = send(own, comm, next);
    return recv_tuple(comm, before, delegate);
  }
  const Tensors received = recv_tuple(comm, before);
  Tensors sent;
  for (std::size_t i = 0; i < own.size(); ++i) sent.push_back(own[i] * received[i].sum());
  return pseudo_connect(send(sent, comm, next), received);
}

std::vector<Checked> checked_functions() {
  const auto all = [](int size) { return size; };
  const auto uneven = [](int rank, int i) { return std::int64_t{(rank + i) % 3}; };
  return {
      {"all_gather", [](auto& comm, auto& own) { return Tensors{all_gather(comm, own[0])}; }, {}, uneven},
      {"allgather", [](auto& comm, auto& own) { return allgather(comm, own[0]); }, {}, uneven},
      {"all_reduce", [](auto& comm, auto& own) { return Tensors{all_reduce(comm, own[0])}; }},
      {"reduce_scatter", [](auto& comm, auto& own) { return Tensors{reduce_scatter(comm, own)}; }, all,
       [](int, int i) { return std::int64_t{i % 3}; }},
      {"broadcast", [](auto& comm, auto& own) { return Tensors{broadcast(comm, own[0], comm->size() - 1)}; }},
      {"alltoall", [](auto& comm, auto& own) { return alltoall(comm, own); }, all, uneven},
      {"reduce", [](auto& comm, auto& own) { return Tensors{reduce(comm, own[0], comm->size() - 1)}; }},
      {"gather", [](auto& comm, auto& own) { return gather(comm, own[0], comm->size() - 1); }, {}, uneven},
      {"scatter", [](auto& comm, auto& own) { return Tensors{scatter(comm, own, comm->size() - 1)}; }, all, uneven},
      {"send and recv", around, [](int) { return 2; }},
  };
}

/// Gradients against differences of the sum of all ranks' losses, in float64.
class GradientCheck : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static at::Tensor loss_of(const Tensors& outputs, int rank) {
    at::Tensor loss = torch::zeros({}, at::kDouble);
    for (const at::Tensor& y : outputs)
      loss = loss +
             (torch::sin(y.to(at::kDouble)).flatten() * (torch::arange(y.numel()).to(at::kDouble) + 1 + rank)).sum();
    return loss;
  }
  /// Every element of every rank's tensors is moved by a little in both directions.
  void check(const Checked& each) const {
    const auto count_of = [&] { return each.count ? each.count(comm_->size()) : 1; };
    torch::manual_seed(5 + comm_->rank());
    Tensors own;
    for (int i = 0; i < count_of(); ++i)
      own.push_back(torch::randn({each.rows ? each.rows(comm_->rank(), i) : 2, 2}, at::kDouble).requires_grad_());
    loss_of(each.call(comm_, own), comm_->rank()).backward();
    for (int r = 0; r < comm_->size(); ++r) {
      for (int i = 0; i < count_of(); ++i) {
        const std::int64_t elements = 2 * (each.rows ? each.rows(r, i) : 2);
        for (std::int64_t e = 0; e < elements; ++e) compare(each, own, r, static_cast<std::size_t>(i), e);
      }
    }
  }
  void compare(const Checked& each, const Tensors& own, int r, std::size_t i, std::int64_t e) const {
    constexpr double kStep = 1e-6;
    const at::NoGradGuard no_grad;
    double difference = 0;
    for (const int sign : {1, -1}) {
      Tensors moved;
      for (const at::Tensor& x : own) moved.push_back(x.detach().clone());
      if (comm_->rank() == r) moved[i].view(-1)[e] += sign * kStep;
      difference += sign * loss_of(each.call(comm_, moved), comm_->rank()).item<double>();
    }
    comm_->allreduce(std::span(&difference, 1));
    if (comm_->rank() != r) return;
    const double gradient = own[i].grad().defined() ? own[i].grad().view(-1)[e].item<double>() : 0;
    EXPECT_NEAR(gradient, difference / (2 * kStep), 1e-6) << each.name << ", tensor " << i << ", element " << e;
  }

  Comm comm_ = test::comm_on_nodes(GetParam());
};

TEST_P(GradientCheck, EachFunctionHasTheGradientsOfDifferences) {
  for (const Checked& each : checked_functions()) check(each);
}

INSTANTIATE_TEST_SUITE_P(OnNodes, GradientCheck, ::testing::Values(1, 2, 3));

/// The last rank makes neither the forward nor the backward of a call.
class AbsentRank : public ::testing::Test {
 protected:
  AbsentRank() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  [[nodiscard]] bool is_absent() const { return rank_ == size_ - 1; }
  [[nodiscard]] Comm limited() const {
    CommunicatorOptions options{.device = Device{}};
    options.timeout = std::chrono::milliseconds(400);
    return create_communicator("flat", MPI_COMM_WORLD, options);
  }
  /// Collective. Expects that `call` ends in one line on the ranks that wait, and that a line names the last rank.
  template <class Call>
  void expect_end(bool waits, const Call& call, const std::string& what) const {
    int names_it = 0;
    try {
      if (waits) call();
      EXPECT_FALSE(waits) << what << " returned";
    } catch (const CommError& error) {
      const std::string text = error.what();
      names_it = text.find("rank " + std::to_string(size_ - 1)) == std::string::npos ? 0 : 1;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
    MPI_Allreduce(MPI_IN_PLACE, &names_it, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_EQ(names_it, 1) << what;
  }

  int rank_ = 0, size_ = 1;
};

TEST_F(AbsentRank, EndsEachCallOfTheOthers_from_2_ranks) {
  for (const Checked& each : checked_functions()) {
    if (each.name == "send and recv") continue;  // only neighbors wait
    const Comm comm = limited();
    const Tensors own(static_cast<std::size_t>(size_), torch::ones({2, 2}).requires_grad_());
    expect_end(
        !is_absent(), [&] { each.call(comm, own); }, each.name);
  }
  const Comm comm = limited(), comm_of_list = limited();
  expect_end(
      rank_ == 0, [&] { static_cast<void>(recv(comm, size_ - 1)); }, "recv");
  const auto run_list = [&] {
    MultiNodeChainList list(comm_of_list);
    list.add_link(torch::nn::Identity(), size_ - 1);
    list.forward();
  };
  expect_end(rank_ == 0, run_list, "a chain list");
}

/// The last rank is the root of the calls with a root; ranks wait that need its gradients.
TEST_F(AbsentRank, EndsTheBackwardOfTheOthers_from_2_ranks) {
  for (const Checked& each : checked_functions()) {
    const bool waits = each.name != "scatter" && each.name != "broadcast" && each.name != "send and recv";
    if (!waits) continue;  // backward only sends to the root
    const Comm comm = limited();
    const Tensors own(static_cast<std::size_t>(size_), torch::ones({2, 2}).requires_grad_());
    at::Tensor loss = torch::zeros({});
    for (const at::Tensor& y : each.call(comm, own)) loss = loss + y.sum();
    expect_end(
        !is_absent(), [&] { loss.backward(); }, each.name);
  }
  const Comm comm = limited();
  const at::Tensor x = torch::ones({2}).requires_grad_();
  const at::Tensor delegate = rank_ == 0 ? send(x, comm, size_ - 1) : is_absent() ? recv(comm, 0) : at::Tensor();
  expect_end(
      rank_ == 0, [&] { delegate.backward(); }, "send");
}

}  // namespace
}  // namespace mn
