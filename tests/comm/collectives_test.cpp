// Every collective call that moves elements, of every backend, with every type, at odd sizes, with and without
// large-count types; and parts of communicators.
#include <span>
#include <string>
#include <tuple>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/backends.hpp"
#include "tests/comm/collectives_fixture.hpp"

namespace mn {
namespace {

using testing::Collectives;
using testing::filled;
using testing::numbers;
using testing::pattern;

TEST_P(Collectives, Bcast) {
  each([&]<class T>(std::size_t count) {
    for (int root = 0; root <= last(); ++root) {
      auto data = mine<T>(count, comm_->rank());
      comm_->bcast(data, root);
      EXPECT_EQ(numbers(data), numbers(mine<T>(count, root)));
    }
  });
}

TEST_P(Collectives, Gather) {
  each([&]<class T>(std::size_t count) {
    std::vector<T> whole(comm_->rank() == last() ? count * ranks() : 0);
    comm_->gather(mine<T>(count, comm_->rank()), whole, last());
    if (comm_->rank() == last()) {
      EXPECT_EQ(numbers(whole), all<T>(count));
    }
  });
}

TEST_P(Collectives, Allgather) {
  each([&]<class T>(std::size_t count) {
    std::vector<T> whole(count * ranks());
    comm_->allgather(mine<T>(count, comm_->rank()), whole);
    EXPECT_EQ(numbers(whole), all<T>(count));
  });
}

TEST_P(Collectives, AllgatherInPlace) {
  each([&]<class T>(std::size_t count) {
    std::vector<T> whole(count * ranks());
    const auto own = BufferView(whole).slice(count * static_cast<std::size_t>(comm_->rank()), count);
    const auto part = mine<T>(count, comm_->rank());
    std::copy(part.begin(), part.end(), static_cast<T*>(own.data));
    comm_->allgather(own, whole);
    EXPECT_EQ(numbers(whole), all<T>(count));
  });
}

TEST_P(Collectives, AlltoallAlsoInPlace) {
  each([&]<class T>(std::size_t count) {
    std::vector<T> send;
    std::vector<double> expected;
    for (int peer = 0; peer <= last(); ++peer) {
      for (const T x : mine<T>(count, comm_->rank() * 3 + peer)) send.push_back(x);
      for (const double x : numbers(mine<T>(count, peer * 3 + comm_->rank()))) expected.push_back(x);
    }
    std::vector<T> recv(send.size());
    comm_->alltoall(send, recv);
    EXPECT_EQ(numbers(recv), expected);
    auto again = send;
    comm_->alltoall(send, send);
    EXPECT_EQ(numbers(send), expected);
    comm_->alltoall(again, comm_->rank() == last() ? again : recv);  // in place on one rank alone
    EXPECT_EQ(numbers(comm_->rank() == last() ? again : recv), expected);
  });
}

TEST_P(Collectives, Scatter) {
  each([&]<class T>(std::size_t count) {
    std::vector<T> whole;
    for (int r = 0; r <= last() && comm_->rank() == last(); ++r) {
      for (const T x : mine<T>(count, r)) whole.push_back(x);
    }
    std::vector<T> part(count);
    comm_->scatter(whole, part, last());
    EXPECT_EQ(numbers(part), numbers(mine<T>(count, comm_->rank())));
  });
}

TEST_P(Collectives, ScatterAndGatherInPlaceAtTheRoot) {
  each([&]<class T>(std::size_t count) {
    std::vector<T> whole(comm_->rank() == 0 ? count * ranks() : 0);
    auto part = mine<T>(count, comm_->rank());
    const BufferView own = comm_->rank() == 0 ? BufferView(whole).slice(0, count) : BufferView(part);
    if (comm_->rank() == 0) std::copy(part.begin(), part.end(), whole.begin());
    comm_->gather(own, whole, 0);
    if (comm_->rank() == 0) {
      EXPECT_EQ(numbers(whole), all<T>(count));
    }
    comm_->scatter(whole, own, 0);
    const auto* begin = static_cast<const T*>(own.data);
    EXPECT_EQ(numbers(std::vector<T>(begin, begin + count)), numbers(part));
  });
}

TEST_P(Collectives, PartsOfDifferentLengths) {
  each([&]<class T>(std::size_t count) {
    // Rank r's part of rank s's data: (r + 2 s) % 3 × count elements, so some are empty.
    const auto length = [&](int r, int s) { return static_cast<std::size_t>((r + 2 * s) % 3) * count; };
    const auto value = [&](int r, int s) { return mine<T>(length(r, s), r + 3 * s); };
    const int rank = comm_->rank();
    std::vector<std::size_t> send_counts;
    std::vector<std::size_t> recv_counts;
    std::vector<T> sent;
    std::vector<double> expected;
    for (int peer = 0; peer <= last(); ++peer) {
      send_counts.push_back(length(peer, rank));
      recv_counts.push_back(length(rank, peer));
      for (const T x : value(peer, rank)) sent.push_back(x);
      for (const double x : numbers(value(rank, peer))) expected.push_back(x);
    }
    std::vector<T> got(expected.size());
    comm_->alltoallv(sent, send_counts, got, recv_counts);
    EXPECT_EQ(numbers(got), expected);

    std::vector<std::size_t> counts;
    std::vector<T> whole;
    for (int r = 0; r <= last(); ++r) {
      counts.push_back(length(r, 0));
      for (const T x : value(r, 0)) whole.push_back(x);
    }
    const auto part = value(rank, 0);
    std::vector<T> all(whole.size());
    comm_->allgatherv(part, all, counts);
    EXPECT_EQ(numbers(all), numbers(whole));
    std::vector<T> at_root(rank == last() ? whole.size() : 0);
    comm_->gatherv(part, at_root, counts, last());
    EXPECT_EQ(numbers(at_root), rank == last() ? numbers(whole) : std::vector<double>());
    std::vector<T> back(part.size());
    comm_->scatterv(at_root, counts, back, last());
    EXPECT_EQ(numbers(back), numbers(part));
  });
}

TEST_P(Collectives, SendAndRecvAroundTheRing_from_2_ranks) {
  each([&]<class T>(std::size_t count) {
    const int next = (comm_->rank() + 1) % comm_->size();
    const int before = (comm_->rank() + last()) % comm_->size();
    std::vector<T> got(count);
    if (comm_->rank() % 2 == 0) comm_->send(mine<T>(count, comm_->rank()), next, 5);
    comm_->recv(got, before, 5);
    if (comm_->rank() % 2 == 1) comm_->send(mine<T>(count, comm_->rank()), next, 5);
    EXPECT_EQ(numbers(got), numbers(mine<T>(count, before)));
  });
}

TEST_P(Collectives, SplitIntoHalves) {
  const int color = comm_->rank() % 2;
  const auto half = comm_->split(color, -comm_->rank());  // the highest rank first
  const int expected_size = (comm_->size() + 1 - color) / 2;
  EXPECT_EQ(half->size(), expected_size);
  EXPECT_EQ(half->name(), comm_->name());
  EXPECT_EQ(half->rank(), expected_size - 1 - comm_->rank() / 2);
  std::vector<std::int64_t> sum{comm_->rank()};
  half->allreduce(sum);
  std::int64_t expected = 0;
  for (int r = color; r <= last(); r += 2) expected += r;
  EXPECT_EQ(sum[0], expected);
}

TEST_P(Collectives, SplitLeavesOutNegativeColors) {
  const auto part = comm_->split(comm_->rank() == 0 ? -1 : 0, 0);
  EXPECT_EQ(part == nullptr, comm_->rank() == 0);
  if (part) {
    EXPECT_EQ(part->size(), comm_->size() - 1);
  }
}

TEST_P(Collectives, TwoCommunicatorsDoNotMixTheirMessages) {
  const auto other = create_communicator(comm_->name(), MPI_COMM_WORLD);
  std::vector<int> a{comm_->rank()};
  std::vector<int> b{100};
  comm_->allreduce(a);
  other->allreduce(b);
  EXPECT_EQ(a[0], comm_->size() * (comm_->size() - 1) / 2);
  EXPECT_EQ(b[0], 100 * comm_->size());
}

std::string param_name(const ::testing::TestParamInfo<std::tuple<std::string, std::size_t>>& info) {
  return std::get<0>(info.param) + (std::get<1>(info.param) == INT_MAX ? "" : "_chunked");
}
INSTANTIATE_TEST_SUITE_P(Backends, Collectives,
                         ::testing::Combine(::testing::ValuesIn(testing::kBackendsOnOneNode),
                                            ::testing::Values<std::size_t>(INT_MAX, 13)),
                         param_name);

}  // namespace
}  // namespace mn
