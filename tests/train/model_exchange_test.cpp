// allreduce_grad and broadcast_data of whole modules, and tensors from rank to rank.
#include <gmock/gmock.h>

#include <mn/core/error.hpp>
#include <mn/tensor/messages.hpp>

#include "optimizer_fixture.hpp"

static int broadcasts = 0;

extern "C" int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++broadcasts;
  return PMPI_Bcast(buffer, count, type, root, comm);
}

namespace mn {
namespace {

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
  comm_->allreduce_grad(std::vector<at::Tensor>{p, q, rows, p});  // p is shared: reduced once
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

/// Small tensors of any dtype and memory order together, large ones by themselves.
TEST_P(OptimizerTest, BroadcastDataSendsFewMessages) {
  constexpr at::ScalarType kTypes[] = {at::kFloat, at::kByte, at::kDouble, at::kBFloat16, at::kBool, at::kLong};
  const auto tensors_of = [&](int rank) {
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < 100; ++i) {
      const at::Tensor whole = torch::arange(i * 7 + rank, i * 7 + rank + 3 * i).view({i, 3}) % 120;
      tensors.push_back((i % 5 == 0 ? whole.t() : whole).to(kTypes[i % 6]));
    }
    tensors[50] = torch::full({3 << 20}, static_cast<float>(rank));
    return tensors;
  };
  const int root = size_ - 1;
  const auto tensors = tensors_of(rank_);
  broadcasts = 0;
  comm_->broadcast_data(tensors, root);
  EXPECT_LE(broadcasts, 6);
  const auto expected = tensors_of(root);
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(tensors[i].equal(expected[i])) << i;
}

/// Around the ring, of which rank r sends r + 1 rows; the last rank begins to receive, so that none waits forever.
TEST_P(OptimizerTest, TensorsTravelWithDtypeAndShape_from_2_ranks) {
  const int next = (rank_ + 1) % size_;
  const int source = (rank_ + size_ - 1) % size_;
  const auto tensor_of = [](int rank, at::ScalarType dtype) {
    return torch::arange(4 * (rank + 1)).view({rank + 1, 4}).t().to(dtype);  // not contiguous
  };
  for (const auto dtype : {torch::kFloat, torch::kLong, torch::kBFloat16, torch::kByte}) {
    at::Tensor received;
    if (rank_ == size_ - 1) received = recv_tensor(*comm_, source, 3);
    send_tensor(*comm_, tensor_of(rank_, dtype), next, 3);
    if (rank_ != size_ - 1) received = recv_tensor(*comm_, source, 3);
    EXPECT_EQ(received.scalar_type(), dtype);
    EXPECT_TRUE(received.is_contiguous());
    EXPECT_TRUE(received.equal(tensor_of(source, dtype)));
  }
  for (const at::Tensor& odd : {torch::tensor(5.0), torch::empty({0, 3})}) {
    if (rank_ == 0) send_tensor(*comm_, odd, 1);
    if (rank_ == 1) {
      EXPECT_TRUE(recv_tensor(*comm_, 0).equal(odd));
    }
  }
}

TEST_P(OptimizerTest, TensorsOfAnotherFormAreAnErrorOfTheReceiver_from_2_ranks) {
  EXPECT_THROW(send_tensor(*comm_, {}, 0), ArgumentError);
  if (rank_ == 0) {
    send_tensor(*comm_, torch::ones({2, 3}), 1);
    send_tensor(*comm_, torch::ones({3, 2}), 1);
  }
  if (rank_ == 1) {
    at::Tensor into = torch::zeros({3, 2}).t();
    recv_tensor(*comm_, into, 0);
    EXPECT_TRUE(into.equal(torch::ones({2, 3})));
    EXPECT_THAT([&] { recv_tensor(*comm_, into, 0); },
                testing::ThrowsMessage<CommError>(testing::HasSubstr("Float [3,2] came, Float [2,3] was expected")));
  }
}

TEST_P(OptimizerTest, TensorsAreReceivedByTheCallsForTensors_from_2_ranks) {
  at::Tensor into = torch::zeros({2});
  if (rank_ == 0) {
    send_tensor(*comm_, into, 1);
    comm_->send(into, 1);
  }
  if (rank_ == 1) {
    const auto throws = testing::ThrowsMessage<CommError>(testing::HasSubstr("with recv_tensor what send_tensor has"));
    EXPECT_THAT([&] { comm_->recv(into, 0); }, throws);
    EXPECT_THAT([&] { recv_tensor(*comm_, into, 0); }, throws);
  }
}

/// Rank r's tensor for rank `to`: another dtype and shape for each pair, without elements or dimensions for some.
at::Tensor of_pair(int r, int to) {
  constexpr at::ScalarType kTypes[] = {at::kFloat, at::kLong, at::kBFloat16, at::kByte};
  const auto dtype = kTypes[(r + to) % 4];
  if (r == to) return torch::tensor(r + 1).to(dtype);
  return (torch::arange(r * 2 * (to + 1)).view({to + 1, 2 * r}) + r + to).t().to(dtype);
}

void expect_same(const at::Tensor& got, const at::Tensor& expected) {
  EXPECT_EQ(got.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(got.is_contiguous());
  EXPECT_TRUE(got.equal(expected)) << got << expected;
}

TEST_P(OptimizerTest, TensorsOfAnyFormAreExchanged) {
  std::vector<at::Tensor> for_each;
  for (int to = 0; to < size_; ++to) for_each.push_back(of_pair(rank_, to));
  const auto exchanged = alltoall_tensors(*comm_, for_each);
  const auto gathered = allgather_tensors(*comm_, of_pair(rank_, 0));
  for (int r = 0; r < size_; ++r) {
    expect_same(exchanged[r], of_pair(r, rank_));
    expect_same(gathered[r], of_pair(r, 0));
  }
  for (int root = 0; root < size_; ++root) {
    expect_same(bcast_tensor(*comm_, rank_ == root ? of_pair(root, 1) : at::Tensor(), root), of_pair(root, 1));
    expect_same(scatter_tensors(*comm_, rank_ == root ? for_each : std::vector<at::Tensor>(), root),
                of_pair(root, rank_));
    const auto at_root = gather_tensors(*comm_, of_pair(rank_, 2), root);
    ASSERT_EQ(at_root.size(), rank_ == root ? size_ : 0);
    for (std::size_t r = 0; r < at_root.size(); ++r) expect_same(at_root[r], of_pair(static_cast<int>(r), 2));
  }
  EXPECT_THROW(static_cast<void>(alltoall_tensors(*comm_, std::vector<at::Tensor>(size_ + 1, torch::ones(1)))),
               ArgumentError);
  EXPECT_THROW(static_cast<void>(gather_tensors(*comm_, {})), ArgumentError);
  EXPECT_THROW(static_cast<void>(allgather_tensors(*comm_, torch::ones(2, at::kComplexFloat))), ArgumentError);
}

}  // namespace
}  // namespace mn
