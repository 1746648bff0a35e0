// Every reduction of every backend, with every type and operation, at odd sizes.
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/collectives_fixture.hpp"

namespace mn {
namespace {

using testing::Collectives;
using testing::filled;
using testing::kOddSizes;
using testing::numbers;
using testing::pattern;

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

}  // namespace
}  // namespace mn
