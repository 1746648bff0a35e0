// Both exchanges of slices in MessageReducer's allreduce, whichever is quicker on the machine: the bits are those of a
// sum in rank order.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/mpi/reduce.hpp>

namespace mn {
namespace {

constexpr double kNever_s = 1;
constexpr double kAtOnce_s = 1e-9;

/// Costs that choose `kind`, between three ranks or more.
NetworkCosts costs_for(ExchangeKind kind) {
  const bool by_way_of_others = kind == ExchangeKind::kLogarithmic;
  return {.latency_s = by_way_of_others ? kAtOnce_s : kNever_s,
          .message_s = by_way_of_others ? kNever_s : kAtOnce_s,
          .bytes_per_s = 1e15};
}

/// Rank r's part; sums of the parts depend on their order.
std::vector<float> part_of(int r, std::size_t count) {
  std::vector<float> part(count);
  for (std::size_t i = 0; i < count; ++i) {
    part[i] = std::exp(static_cast<float>((static_cast<std::size_t>(r) * 7 + i) % 13) - 6.0F) / 3;
  }
  return part;
}

std::vector<float> in_rank_order(int ranks, std::size_t count, const Reduction& reduction) {
  std::vector<std::vector<float>> parts;
  for (int r = 0; r < ranks; ++r) parts.push_back(part_of(r, count));
  std::vector<const void*> inputs;
  for (const auto& part : parts) inputs.push_back(part.data());
  std::vector<float> sum(count);
  void* const out = sum.data();
  reduce_in_order({&out, 1}, inputs, count, reduction);
  return sum;
}

TEST(MessageReducer, BothWaysSumInRankOrder) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Reduction mean = Reduction::of(DType::kFloat32, ReduceOp::kAverage, ranks);
  for (const ExchangeKind kind : {ExchangeKind::kLogarithmic, ExchangeKind::kPairwise}) {
    if (ranks > 2) {
      EXPECT_EQ(quicker_exchange(costs_for(kind), ranks, 40'000), kind);
    }
    MessageReducer reducer(MPI_COMM_WORLD, costs_for(kind));
    // 3: gathered whole; 10'007 and above are not a multiple of any number of ranks, and the last has several pieces.
    for (const std::size_t count : {std::size_t{3}, std::size_t{10'007}, std::size_t{1'000'003}}) {
      std::vector<float> data = part_of(rank, count);
      reducer.allreduce(data.data(), count, mean);
      EXPECT_TRUE(data == in_rank_order(ranks, count, mean)) << static_cast<int>(kind) << ", " << count;
    }
  }
}

}  // namespace
}  // namespace mn
