// Rows of tensors on other ranks, and back: values, gradients, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/nn/row_exchange.hpp>

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class RowExchangeTest : public testing::Test {
 protected:
  std::shared_ptr<Communicator> comm_ = create_communicator("auto", MPI_COMM_WORLD, {.device = Device{}});
  int rank_ = comm_->rank();
  int size_ = comm_->size();

  /// Rank 0 has 3 rows, or none beside other ranks; rank r has 5 r.
  [[nodiscard]] std::int64_t count_of(int rank) const { return size_ == 1 ? 3 : 5 * rank; }
  /// Row i of rank r goes to rank (3 i + r) % ranks.
  [[nodiscard]] at::Tensor ranks_of(int rank) const {
    return (torch::arange(count_of(rank)) * 3 + rank).remainder(size_);
  }
  /// Row i of rank r is r, i.
  [[nodiscard]] at::Tensor rows_of(int rank) const {
    const at::Tensor numbers = torch::arange(count_of(rank)).to(at::kDouble);
    return torch::stack({torch::full_like(numbers, rank), numbers}, 1);
  }
};

TEST_F(RowExchangeTest, RowsArriveByRankAndResultsReturnInOrder) {
  const RowExchange exchange(comm_, ranks_of(rank_));
  std::vector<at::Tensor> expected;
  for (int r = 0; r < size_; ++r) expected.push_back(rows_of(r).index({ranks_of(r).eq(rank_)}));
  const at::Tensor received = exchange.send(rows_of(rank_));
  EXPECT_TRUE(received.equal(torch::cat(expected)));
  EXPECT_TRUE(exchange.send(rows_of(rank_).to(at::kLong)).equal(received.to(at::kLong))) << "another dtype";
  // The results have another shape than the rows.
  const at::Tensor results = exchange.send_back(received.sum(1) + 1000 * rank_);
  EXPECT_TRUE(results.equal(rows_of(rank_).sum(1) + 1000 * ranks_of(rank_)));
}

TEST_F(RowExchangeTest, GradientsReturnToTheirRows) {
  const at::Tensor rows = rows_of(rank_).requires_grad_();
  const RowExchange exchange(comm_, ranks_of(rank_));
  const at::Tensor results = exchange.send_back(exchange.send(rows) * (rank_ + 2));
  const at::Tensor weight = torch::arange(2 * count_of(rank_)).view({count_of(rank_), 2}).to(at::kDouble);
  (results * weight).sum().backward();
  EXPECT_TRUE(rows.grad().equal(weight * (ranks_of(rank_).unsqueeze(1) + 2)));
}

TEST_F(RowExchangeTest, AMistakeOfOneRankIsTheSameErrorOnAllRanks) {
  const int wrong = size_ - 1;
  const auto error = [&](const std::string& text) {
    return ThrowsMessage<ArgumentError>(HasSubstr("RowExchange: rank " + std::to_string(wrong) + " gave " + text));
  };
  const at::Tensor good = torch::zeros({2}, at::kLong);
  for (const at::Tensor& bad : {torch::tensor({0, size_}), torch::tensor({-1, 0}), torch::zeros({2}),
                                torch::zeros({1, 2}, at::kLong), at::Tensor()}) {
    EXPECT_THAT([&] { RowExchange(comm_, rank_ == wrong ? bad : good); }, error("ranks that are not a list of int"));
  }
  const RowExchange exchange(comm_, good);
  EXPECT_THAT([&] { static_cast<void>(exchange.send(torch::zeros({rank_ == wrong ? 3 : 2}))); },
              error("3 rows, not 2"));
  const at::Tensor received = exchange.send(torch::zeros({2}));
  EXPECT_THAT([&] { static_cast<void>(exchange.send_back(rank_ == wrong ? at::Tensor() : received)); },
              error("no rows, not " + std::to_string(size_ == 1 ? 2 : 0)));
}

}  // namespace
}  // namespace mn
