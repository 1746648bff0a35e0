// Strings and JSON documents of every backend's collective calls and messages.
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "tests/comm/collectives_fixture.hpp"

namespace mn {
namespace {

using testing::Collectives;
using testing::filled;
using testing::numbers;
using testing::pattern;

TEST_P(Collectives, Objects) {
  const int rank = comm_->rank();
  const auto text_of = [](int r) { return std::string(static_cast<std::size_t>(r) * 31, static_cast<char>(r)) + "x"; };
  EXPECT_EQ(comm_->bcast_obj(rank == last() ? text_of(last()) : std::string("ignored"), last()), text_of(last()));
  EXPECT_EQ(comm_->bcast_obj(std::string()), "");
  std::vector<std::string> texts;
  for (int r = 0; r <= last(); ++r) texts.push_back(text_of(r));
  EXPECT_EQ(comm_->gather_obj(text_of(rank), last()), rank == last() ? texts : std::vector<std::string>{});
  EXPECT_EQ(comm_->allgather_obj(text_of(rank)), texts);
  EXPECT_EQ(comm_->scatter_obj(rank == last() ? texts : std::vector<std::string>{}, last()), text_of(rank));
  if (comm_->size() > 1 && rank == 0) comm_->send_obj(text_of(40), 1, 3);
  if (rank == 1) {
    EXPECT_EQ(comm_->recv_obj(0, 3), text_of(40));
  }
  if (rank == 0 && comm_->size() > 1) {
    comm_->send_obj("a literal", 1, 9);
    comm_->send_obj(text_of(41), 1, 4);
  }
  if (rank == 1) {
    EXPECT_EQ(comm_->recv_obj(0), "a literal") << "of any tag";
    std::string longer = comm_->recv_obj(0, Communicator::kAnyTag);
    EXPECT_EQ(longer, text_of(41));
  }
  if (rank == 0 && comm_->size() > 1) comm_->send(std::vector<int>{5}, 1, 7);
  if (rank == 1) {
    std::vector<int> five(1);
    comm_->recv(five, 0, Communicator::kAnyTag);
    EXPECT_EQ(five[0], 5);
  }
  EXPECT_EQ(comm_->bcast_obj("a literal"), "a literal");
  EXPECT_EQ(comm_->allgather_obj("a literal").back(), "a literal");
  comm_->barrier();
}

TEST_P(Collectives, JsonNumbersKeepTheirValue) {
  using nlohmann::json;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool first = comm_->rank() == 0;
  const json sum = comm_->allreduce_obj(json{first ? std::nan("") : 1.0, kInfinity, first ? -kInfinity : 1.0});
  EXPECT_TRUE(std::isnan(sum[0].get<double>()));
  EXPECT_EQ(sum[1].get<double>(), kInfinity);
  EXPECT_EQ(sum[2].get<double>(), -kInfinity);
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 63;
  EXPECT_EQ(comm_->allreduce_obj(json(first ? kHigh : 1)), json(kHigh + static_cast<std::uint64_t>(comm_->size() - 1)));
  EXPECT_EQ(comm_->allreduce_obj(first ? json(kHigh) : json(-1)),
            json(kHigh - static_cast<std::uint64_t>(comm_->size() - 1)));
  if (comm_->size() > 1) {
    EXPECT_THROW(static_cast<void>(comm_->allreduce_obj(json(kHigh))), ArgumentError);
    EXPECT_THROW(static_cast<void>(comm_->allreduce_obj(json(std::numeric_limits<std::int64_t>::min()))),
                 ArgumentError);
  }
  EXPECT_TRUE(std::isnan(comm_->bcast_obj(json(std::nan(""))).get<double>()));
}

TEST_P(Collectives, JsonSumsThatFitThoughTheirBeginningDoesNot_from_3_ranks) {
  using nlohmann::json;
  const auto sum = [&](const json& first, int second, int third) {
    const auto by_rank = std::array{first, json(second), json(third)};
    return comm_->allreduce_obj(comm_->rank() < 3 ? by_rank[static_cast<std::size_t>(comm_->rank())] : json(0));
  };
  constexpr auto kMax = std::numeric_limits<std::uint64_t>::max();
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(sum(kMax, 1, -2), json(kMax - 1));
  EXPECT_EQ(sum(kMin, -1, 5), json(kMin + 4));
  EXPECT_THROW(static_cast<void>(sum(kMax, 1, 0)), ArgumentError);
}

TEST_P(Collectives, JsonThatDiffersInBytesThatAreNoText_from_2_ranks) {
  using nlohmann::json;
  EXPECT_THROW(static_cast<void>(comm_->allreduce_obj(json(comm_->rank() == 0 ? "\xff" : "\xfe"))), ArgumentError);
}

TEST_P(Collectives, JsonDocuments) {
  using nlohmann::json;
  const int rank = comm_->rank();
  const int size = comm_->size();
  EXPECT_EQ(comm_->bcast_obj(json{{"rank", rank}}, last())["rank"], last());
  EXPECT_EQ(comm_->allgather_obj(json(rank)).back(), json(last()));
  const json sum = comm_->allreduce_obj(json{{"n", 1}, {"loss", 0.5}, {"per_class", {rank, 1}}, {"name", "mnist"}});
  EXPECT_EQ(sum,
            (json{{"n", size}, {"loss", 0.5 * size}, {"per_class", {size * (size - 1) / 2, size}}, {"name", "mnist"}}));
  if (size > 1 && rank == 0) comm_->send_obj(json{1, 2, 3}, 1);
  if (rank == 1) {
    EXPECT_EQ(comm_->recv_json(0), (json{1, 2, 3}));
  }
}

}  // namespace
}  // namespace mn
