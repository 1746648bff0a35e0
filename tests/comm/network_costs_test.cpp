// Choices that follow from the costs of messages, and errors for wrong costs.
#include <cstdlib>

#include <gtest/gtest.h>

#include <mn/comm/messages/network_costs.hpp>
#include <mn/core/error.hpp>

namespace {

struct Sent {
  std::size_t messages = 0;
  std::size_t bytes = 0;
} sent;

}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  sent = {sent.messages + 1, sent.bytes + static_cast<std::size_t>(count) * static_cast<std::size_t>(bytes)};
  return PMPI_Isend(data, count, type, dest, tag, comm, request);
}

namespace mn {
namespace {

constexpr NetworkCosts kInfiniBand{2e-6, 0.2e-6, 50e9};
constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

TEST(NetworkCosts, FewBytesOfManyRanksGoByWayOfOthers) {
  EXPECT_EQ(quicker_exchange(kInfiniBand, 1024, 64 * kKiB), ExchangeKind::kLogarithmic);
  EXPECT_EQ(quicker_exchange(kInfiniBand, 1024, 64 * kMiB), ExchangeKind::kPairwise);
  EXPECT_EQ(quicker_exchange(kInfiniBand, 4, 64 * kKiB), ExchangeKind::kPairwise);
}

TEST(NetworkCosts, SlowMessagesMakeFewPieces) {
  const std::size_t pieces = best_pieces(kInfiniBand, 16, 12 * kMiB);
  EXPECT_GT(pieces, 4U);
  NetworkCosts slow = kInfiniBand;
  slow.message_s *= 100;
  EXPECT_LT(best_pieces(slow, 16, 12 * kMiB), pieces / 4);
  EXPECT_LT(best_pieces(kInfiniBand, 1024, 12 * kMiB), pieces / 4);
  EXPECT_GT(best_pieces(kInfiniBand, 16, 1200 * kMiB), 4 * pieces);
  EXPECT_EQ(best_pieces(kInfiniBand, 1024, 1), 1U);
}

TEST(NetworkCosts, AreMeasuredInMilliseconds) {
  const auto seconds = [](double bytes, double bytes_per_s) { return bytes / bytes_per_s; };
  for (const double bytes_per_s : {12.5e6, 125e6, 1.25e9, 50e9}) {  // 100 Mbit/s and more
    const double trial_s = seconds(64 * kKiB, bytes_per_s);
    const std::size_t bytes = bytes_to_measure(trial_s, 64 * kKiB);
    EXPECT_LT(trial_s + 3 * seconds(static_cast<double>(bytes), bytes_per_s), 0.04) << bytes_per_s;
    EXPECT_GE(bytes, 64 * kKiB);
  }
  EXPECT_EQ(bytes_to_measure(seconds(64 * kKiB, 50e9), 64 * kKiB), kMiB);
  EXPECT_EQ(bytes_to_measure(0, 64 * kKiB), kMiB);
  EXPECT_EQ(bytes_to_measure(10, 64 * kKiB), 64 * kKiB);
}

/// The costs that all ranks find.
NetworkCosts find() { return NetworkCosts::find(MPI_COMM_WORLD, MPI_COMM_WORLD); }

/// Each rank sends a few messages to each rank, and a few mebibytes to all together.
TEST(NetworkCosts, AreMeasuredByFewMessages) {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  sent = {};
  static_cast<void>(find());
  EXPECT_LE(sent.messages, 8U * static_cast<std::size_t>(size - 1) + 3);
  EXPECT_LE(sent.bytes, 3 * kMiB + 65 * kKiB);
  EXPECT_EQ(sent.messages > 0, size > 1);
}

TEST(NetworkCosts, AreMeasuredAlikeOnAllRanks) {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const NetworkCosts costs = find();
  double most[] = {costs.latency_s, costs.message_s, costs.bytes_per_s};
  MPI_Allreduce(MPI_IN_PLACE, most, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  EXPECT_EQ(costs.latency_s, most[0]);
  EXPECT_EQ(costs.message_s, most[1]);
  EXPECT_EQ(costs.bytes_per_s, most[2]);
  for (const double each : most) EXPECT_GT(each, 0);
}

TEST(NetworkCosts, OfTheFirstRankCount) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  setenv("MN_NETWORK", rank == 0 ? "3,0.5,12.5" : "7,7,7", 1);
  const NetworkCosts costs = find();
  EXPECT_DOUBLE_EQ(costs.latency_s, 3e-6);
  EXPECT_DOUBLE_EQ(costs.message_s, 0.5e-6);
  EXPECT_DOUBLE_EQ(costs.bytes_per_s, 12.5e9);
  for (const char* wrong : {"3", "3,1", "3,1,0", "3,1,2,", "a,b,c", "-1,1,1"}) {
    setenv("MN_NETWORK", wrong, 1);
    EXPECT_THROW(static_cast<void>(find()), UsageError) << wrong;
  }
  unsetenv("MN_NETWORK");
}

}  // namespace
}  // namespace mn
