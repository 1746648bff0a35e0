// Every collective of every backend, with every type, at odd sizes, with and without large-count types.
#include <climits>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <tuple>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

#include "tests/comm/values.hpp"

namespace mn {
namespace {

using testing::filled;
using testing::kOddSizes;
using testing::numbers;
using testing::pattern;

/// Backend and count_limit: with 13 elements a message, most of the sizes are "above INT_MAX".
class Collectives : public ::testing::TestWithParam<std::tuple<std::string, std::size_t>> {
 protected:
  Collectives() {
    CommunicatorOptions options;
    options.device = Device();
    options.count_limit = std::get<1>(GetParam());
    comm_ = create_communicator(std::get<0>(GetParam()), MPI_COMM_WORLD, options);
  }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm_->size()); }
  [[nodiscard]] int last() const { return comm_->size() - 1; }

  /// body.operator()<T>(count) for each type and size.
  template <class Body>
  void each(const Body& body) {
    testing::for_each_type([&]<class T>() {
      for (const std::size_t count : kOddSizes) {
        SCOPED_TRACE("count " + std::to_string(count));
        body.template operator()<T>(count);
      }
    });
  }
  template <class T>
  std::vector<T> mine(std::size_t count, int rank) {
    return filled<T>(count, [&](std::size_t i) { return pattern(rank, i); });
  }
  /// The parts of all ranks, by rank.
  template <class T>
  std::vector<double> all(std::size_t count) {
    std::vector<double> whole;
    for (int r = 0; r <= last(); ++r) {
      for (const double x : numbers(mine<T>(count, r))) whole.push_back(x);
    }
    return whole;
  }

  std::shared_ptr<Communicator> comm_;
};

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

/// The reduction of all ranks' parts, element by element.
template <class Op>
std::vector<double> reduced(int ranks, std::size_t count, double start, const Op& op, int modulus = 7) {
  std::vector<double> expected(count, start);
  for (int r = 0; r < ranks; ++r) {
    for (std::size_t i = 0; i < count; ++i) expected[i] = op(expected[i], pattern(r, i) % modulus);
  }
  return expected;
}

TEST_P(Collectives, AllreduceSumMinMax) {
  each([&]<class T>(std::size_t count) {
    auto sum = mine<T>(count, comm_->rank());
    comm_->allreduce(sum);
    EXPECT_EQ(numbers(sum), reduced(comm_->size(), count, 0, std::plus()));
    auto low = mine<T>(count, comm_->rank());
    comm_->allreduce(low, ReduceOp::kMin);
    EXPECT_EQ(numbers(low), reduced(comm_->size(), count, 99, [](double a, double b) { return std::min(a, b); }));
    auto high = mine<T>(count, comm_->rank());
    comm_->allreduce(high, ReduceOp::kMax);
    EXPECT_EQ(numbers(high), reduced(comm_->size(), count, -1, [](double a, double b) { return std::max(a, b); }));
  });
}

TEST_P(Collectives, AllreduceProduct) {
  each([&]<class T>(std::size_t count) {
    auto product = filled<T>(count, [&](std::size_t i) { return pattern(comm_->rank(), i) % 2 + 1; });
    comm_->allreduce(product, ReduceOp::kProd);
    std::vector<double> expected(count, 1);
    for (int r = 0; r <= last(); ++r) {
      for (std::size_t i = 0; i < count; ++i) expected[i] *= pattern(r, i) % 2 + 1;
    }
    EXPECT_EQ(numbers(product), expected);
  });
}

template <class T>
void expect_nans_in_extremes(Communicator& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    // Element i is NaN on rank i % (ranks + 1), and nowhere for the last remainder.
    auto values = filled<T>(5 * ranks * (ranks + 1), [&](std::size_t i) { return pattern(comm.rank(), i); });
    for (std::size_t i = rank; i < values.size(); i += ranks + 1) {
      values[i] = testing::element_of<T>(std::numeric_limits<float>::quiet_NaN());
    }
    const auto expect = [&](std::size_t first, const std::vector<double>& got) {
      int wrong = 0;
      for (std::size_t i = 0; i < got.size(); ++i) wrong += std::isnan(got[i]) != ((first + i) % (ranks + 1) < ranks);
      EXPECT_EQ(wrong, 0) << name_of(dtype_of<T>()) << ", " << name_of(op);
    };
    std::vector<T> part(values.size() / ranks);
    comm.reduce_scatter(values, part, op);
    expect(rank * part.size(), numbers(part));
    comm.allreduce(values, op);
    expect(0, numbers(values));
  }
}

TEST_P(Collectives, TheMinimumAndMaximumOfANanAreNan) {
  expect_nans_in_extremes<Float16>(*comm_);
  expect_nans_in_extremes<BFloat16>(*comm_);
  expect_nans_in_extremes<float>(*comm_);
  expect_nans_in_extremes<double>(*comm_);
}

TEST_P(Collectives, SignCountsInMinAndMax) {
  const bool first = comm_->rank() == 0;
  std::vector<std::int8_t> narrow{static_cast<std::int8_t>(first ? -3 : 2)};
  comm_->allreduce(narrow, ReduceOp::kMin);
  EXPECT_EQ(narrow[0], -3);
  std::vector<std::uint64_t> wide{first ? ~std::uint64_t{0} : 2};
  comm_->allreduce(wide, ReduceOp::kMax);
  EXPECT_EQ(wide[0], ~std::uint64_t{0});
}

TEST_P(Collectives, BooleansAreMovedButNotReduced) {
  bool flags[] = {comm_->rank() == last(), true};
  comm_->bcast(flags, last());
  EXPECT_TRUE(flags[0]);
  EXPECT_THROW(comm_->allreduce(flags), ArgumentError);
  EXPECT_THROW(comm_->reduce_scatter(flags, std::span(flags, 1)), ArgumentError);
}

TEST_P(Collectives, ReduceScatter) {
  each([&]<class T>(std::size_t count) {
    const auto send = mine<T>(count * ranks(), comm_->rank());
    std::vector<T> recv(count);
    comm_->reduce_scatter(send, recv);
    const auto whole = reduced(comm_->size(), count * ranks(), 0, std::plus());
    const auto begin = whole.begin() + comm_->rank() * static_cast<std::ptrdiff_t>(count);
    EXPECT_EQ(numbers(recv), std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(count)));
  });
}

TEST_P(Collectives, ReduceAlsoInPlace) {
  each([&]<class T>(std::size_t count) {
    for (int root = 0; root <= last(); ++root) {
      const auto sent = mine<T>(count, comm_->rank());
      std::vector<T> got(comm_->rank() == root ? count : 0);
      comm_->reduce(sent, got, ReduceOp::kSum, root);
      auto again = sent;
      comm_->reduce(again, comm_->rank() == root ? std::span(again) : std::span<T>(), ReduceOp::kMax, root);
      if (comm_->rank() != root) {
        EXPECT_EQ(numbers(again), numbers(sent)) << "unchanged";
        continue;
      }
      EXPECT_EQ(numbers(got), reduced(comm_->size(), count, 0, std::plus()));
      EXPECT_EQ(numbers(again), reduced(comm_->size(), count, -1, [](double a, double b) { return std::max(a, b); }));
    }
  });
}

/// Large enough for slices, and with values whose sum depends on the order.
TEST_P(Collectives, ReduceGivesTheBitsOfFlatsAllreduce) {
  std::vector<float> sent;
  for (int i = 0; i < 50'021; ++i)
    sent.push_back(std::ldexp(1.0F + static_cast<float>(i % 77), (comm_->rank() * 7 + i) % 40));
  auto expected = sent;
  create_communicator("flat", MPI_COMM_WORLD, {.device = Device{}})->allreduce(expected);
  std::vector<float> got(comm_->rank() == last() ? sent.size() : 0);
  comm_->reduce(sent, got, ReduceOp::kSum, last());
  if (comm_->rank() == last()) {
    EXPECT_EQ(got, expected);
  }
}

TEST_P(Collectives, AverageOfFloats) {
  const auto run = [&]<class T>() {
    for (const std::size_t count : kOddSizes) {
      const auto sent =
          filled<T>(count * ranks(), [&](std::size_t i) { return comm_->size() * pattern(comm_->rank(), i); });
      const auto expected = reduced(comm_->size(), count * ranks(), 0, std::plus());
      const auto begin = expected.begin() + comm_->rank() * static_cast<std::ptrdiff_t>(count);
      std::vector<T> part(count);
      comm_->reduce_scatter(sent, part, ReduceOp::kAverage);
      EXPECT_EQ(numbers(part), std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(count)));
      std::vector<T> at_root(sent.size());
      comm_->reduce(sent, at_root, ReduceOp::kAverage, 0);
      EXPECT_EQ(numbers(at_root), comm_->rank() == 0 ? expected : std::vector<double>(sent.size(), 0));
      auto whole = sent;
      comm_->allreduce(whole, ReduceOp::kAverage);
      EXPECT_EQ(numbers(whole), expected);
    }
  };
  run.template operator()<BFloat16>();
  run.template operator()<float>();
  run.template operator()<double>();
  std::vector<int> integers(1);
  EXPECT_THROW(comm_->allreduce(integers, ReduceOp::kAverage), ArgumentError);
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

TEST_P(Collectives, SendAndRecvAroundTheRing) {
  each([&]<class T>(std::size_t count) {
    const int next = (comm_->rank() + 1) % comm_->size();
    const int before = (comm_->rank() + last()) % comm_->size();
    if (next == comm_->rank()) return;
    std::vector<T> got(count);
    if (comm_->rank() % 2 == 0) comm_->send(mine<T>(count, comm_->rank()), next, 5);
    comm_->recv(got, before, 5);
    if (comm_->rank() % 2 == 1) comm_->send(mine<T>(count, comm_->rank()), next, 5);
    EXPECT_EQ(numbers(got), numbers(mine<T>(count, before)));
  });
}

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
                         ::testing::Combine(::testing::ValuesIn(communicator_names(DeviceType::kCpu)),
                                            ::testing::Values<std::size_t>(INT_MAX, 13)),
                         param_name);

}  // namespace
}  // namespace mn
