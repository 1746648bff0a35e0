// allreduce_grad and broadcast_data of whole modules, and tensors from rank to rank.
#include <gmock/gmock.h>

#include <mn/core/error.hpp>
#include <mn/tensor/messages.hpp>

#include "optimizer_fixture.hpp"

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

/// Around the ring, of which rank r sends r + 1 rows; the last rank begins to receive, so that none waits for ever.
TEST_P(OptimizerTest, TensorsTravelWithDtypeAndShape) {
  if (size_ == 1) return;
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

TEST_P(OptimizerTest, TensorsOfAnotherFormAreAnErrorOfTheReceiver) {
  if (size_ == 1) return;
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

}  // namespace
}  // namespace mn
