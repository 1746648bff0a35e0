// Debug mode: a mismatch between ranks throws an equal exception on every rank, and no rank waits forever.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/node/shared_reducer.hpp>
#include <mn/core/error.hpp>
#include <mn/core/half.hpp>

namespace mn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Debug : public ::testing::TestWithParam<std::string> {
 protected:
  Debug() {
    CommunicatorOptions options;
    options.device = Device();
    options.debug = true;
    comm_ = create_communicator(GetParam(), MPI_COMM_WORLD, options);
    last_ = comm_->size() - 1;
  }
  /// The communicator still works: matching calls pass.
  void TearDown() override {
    std::vector<int> one{1};
    comm_->allreduce(one);
    EXPECT_EQ(one[0], comm_->size());
  }
  [[nodiscard]] bool am_last() const { return comm_->rank() == last_; }
  [[nodiscard]] std::string last_rank() const { return "rank " + std::to_string(last_); }

  std::shared_ptr<Communicator> comm_;
  int last_ = 0;
};

TEST_P(Debug, CallsThatFitPass) {
  std::vector<float> values(100, 1);
  std::vector<float> all(100 * static_cast<std::size_t>(comm_->size()));
  comm_->bcast(values, last_);
  comm_->allgather(values, all);
  comm_->gather(values, all, last_);
  comm_->scatter(all, values, last_);
  comm_->reduce_scatter(all, values);
  comm_->barrier();
  comm_->sum_gradients(std::vector<BufferView>{values}, 0.5);
  EXPECT_EQ(comm_->bcast_obj(std::string("x")), "x");
  EXPECT_EQ(comm_->split(0, 0)->size(), comm_->size());
}

TEST_P(Debug, Counts_from_2_ranks) {
  std::vector<float> values(am_last() ? 7 : 8);
  EXPECT_THAT(
      [&] { comm_->allreduce(values); },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("the ranks differ in allreduce"), HasSubstr("of 8 float32, sum"),
                                         HasSubstr(last_rank()), HasSubstr("of 7 float32, sum"))));
}

TEST_P(Debug, TypesOpsAndRoots_from_2_ranks) {
  std::vector<float> narrow(4);
  std::vector<double> wide(4);
  EXPECT_THAT([&] { comm_->bcast(am_last() ? BufferView(wide) : BufferView(narrow)); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("4 float32"), HasSubstr("4 float64"))));
  EXPECT_THAT([&] { comm_->allreduce(narrow, am_last() ? ReduceOp::kMax : ReduceOp::kMin); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("min"), HasSubstr("max"))));
  EXPECT_THAT([&] { comm_->bcast(narrow, am_last() ? 1 : 0); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("root 0"), HasSubstr("root 1"))));
}

TEST_P(Debug, InPlaceOnOneRankAlone) {
  const auto ranks = static_cast<std::size_t>(comm_->size());
  const auto rank = static_cast<std::size_t>(comm_->rank());
  std::vector<float> expected;
  for (std::size_t i = 0; i < 4 * ranks; ++i) expected.push_back(static_cast<float>(i / 4 + 1));
  std::vector<float> all(4 * ranks);
  std::vector<float> others(4 * ranks);
  const BufferView own = BufferView(am_last() ? all : others).slice(4 * rank, 4);
  std::ranges::fill(std::span(static_cast<float*>(own.data), 4), static_cast<float>(rank + 1));
  EXPECT_NO_THROW(comm_->allgather(own, all));
  EXPECT_EQ(all, expected);
  EXPECT_NO_THROW(comm_->alltoall(am_last() ? all : others, all));
}

TEST_P(Debug, CountsThatDoNotMatch_from_2_ranks) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(comm_->size()), 3);
  std::vector<float> sent(3 * counts.size());
  std::vector<float> got(sent.size() - (am_last() ? 1 : 0));
  auto expected = counts;
  if (am_last()) expected[0] = 2;
  EXPECT_THAT(
      [&] { comm_->alltoallv(sent, counts, got, expected); },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("rank 0 sends 3 elements to rank"), HasSubstr("expects 2"))));
}

TEST_P(Debug, SharedBuffers_from_2_ranks) {
  const auto memory = comm_->allocate(400);
  const BufferView first(memory.get(), am_last() ? 20 : 10, DType::kFloat32);
  const BufferView second(memory.get() + 80, am_last() ? 10 : 20, DType::kFloat32);
  const std::vector<BufferView> buffers{first, second};
  EXPECT_THAT([&] { static_cast<void>(comm_->share(buffers)); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("the ranks differ in share"), HasSubstr("of 10 float32"),
                                                 HasSubstr("of 20 float32"))));
}

TEST_P(Debug, Operations_from_2_ranks) {
  std::vector<float> values(4);
  EXPECT_THAT([&] { am_last() ? comm_->barrier() : comm_->allreduce(values); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("\"barrier\""), HasSubstr("\"allreduce of 4"))));
}

TEST_P(Debug, WhatOneRankRefusesEveryRankHears) {
  std::vector<float> values(4);
  EXPECT_THAT(
      [&] { comm_->bcast(values, am_last() ? 99 : 0); },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr(last_rank() + " on "), HasSubstr("root 99 is out of range"))));
}

TEST_P(Debug, CallsInTheBackground) {
  std::vector<float> values(4, 1);
  std::vector<float> later(4, 1);
  comm_->barrier();
  Request wrong = comm_->ibcast(values, am_last() ? 99 : 0);
  Request right = comm_->iallreduce(later);
  EXPECT_THAT([&] { wrong.wait(); }, ThrowsMessage<ArgumentError>(AllOf(HasSubstr("call 2: " + last_rank() + " on "),
                                                                        HasSubstr("ibcast: root 99 is out of range"))));
  EXPECT_NO_THROW(right.wait());
  EXPECT_EQ(later, std::vector<float>(4, static_cast<float>(comm_->size())));
  if (comm_->size() == 1) return;
  EXPECT_THAT([&] { comm_->iallreduce(am_last() ? BufferView(values).slice(0, 3) : BufferView(values)).wait(); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("call 4: the ranks differ in iallreduce"),
                                                 HasSubstr("iallreduce of 3 float32"), HasSubstr(last_rank()))));
  EXPECT_NO_THROW(comm_->iallreduce(values).wait());
}

TEST_P(Debug, GradientsOfDifferentShape_from_2_ranks) {
  std::vector<float> weight(12);
  std::vector<float> bias(am_last() ? 3 : 4);
  const std::vector<std::string> names{"fc.weight", "fc.bias"};
  EXPECT_THAT(
      [&] {
        comm_->sum_gradients(std::vector<BufferView>{weight, bias}, 1.0, names);
      },
      ThrowsMessage<ArgumentError>(AllOf(HasSubstr("fc.bias's gradient of 4 float32"), HasSubstr(last_rank()),
                                         HasSubstr("fc.bias's gradient of 3 float32"))));
  const std::vector<BufferView> one{weight};
  const std::vector<BufferView> two{weight, bias};
  EXPECT_THAT([&] { comm_->sum_gradients(am_last() ? one : two, 1.0); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("of 2 gradients"), HasSubstr("of 1 gradients"))));
}

TEST_P(Debug, GradientsThatAreNotFinite) {
  const std::vector<std::string> names{"fc.weight", "fc.bias"};
  const auto check = [&](BufferView bias, const char* what) {
    std::vector<float> weight(12, 1);
    EXPECT_THAT(
        [&] {
          comm_->sum_gradients(std::vector<BufferView>{weight, bias}, 1.0, names);
        },
        ThrowsMessage<ArgumentError>(
            AllOf(HasSubstr(last_rank() + " on "), HasSubstr("fc.bias's gradient has "), HasSubstr(what))));
  };
  std::vector<float> single(5, 0);
  std::vector<double> twice(5, 0);
  std::vector<Float16> half(5, Float16{0});
  std::vector<BFloat16> brain(5, BFloat16{0});
  if (am_last()) {
    single[3] = std::numeric_limits<float>::quiet_NaN();
    twice[4] = -std::numeric_limits<double>::infinity();
    half[0] = to_float16(1e9F);
    brain[1] = to_bfloat16(std::numeric_limits<float>::quiet_NaN());
  }
  check(single, "nan at element 3");
  check(twice, "inf at element 4");
  check(half, "inf at element 0");
  check(brain, "nan at element 1");
}

TEST_P(Debug, NamesThatDoNotBelongToTheGradients) {
  std::vector<float> weight(2);
  const std::vector<std::string> names{"a", "b"};
  EXPECT_THROW(comm_->sum_gradients(std::vector<BufferView>{weight}, 1.0, names), ArgumentError);
}

TEST_P(Debug, OneRanksWishIsEveryones) {
  CommunicatorOptions options;
  options.device = Device();
  options.debug = am_last();
  const auto comm = create_communicator(GetParam(), MPI_COMM_WORLD, options);
  std::vector<float> values(4);
  EXPECT_THROW(comm->bcast(values, am_last() ? 99 : 0), ArgumentError);
}

TEST_P(Debug, IsAskedForByTheEnvironmentToo) {
  CommunicatorOptions options;
  options.device = Device();
  for (const char* value : {"1", "0"}) {
    setenv("MN_DEBUG", value, 1);
    const auto comm = create_communicator(GetParam(), MPI_COMM_WORLD, options);
    unsetenv("MN_DEBUG");
    std::vector<float> values{std::numeric_limits<float>::infinity()};
    const auto reduce = [&] { comm->sum_gradients(std::vector<BufferView>{values}, 1.0); };
    if (*value == '1') {
      EXPECT_THROW(reduce(), ArgumentError);
    } else {
      reduce();  // nobody checks for infinity then
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Debug, ::testing::Values("naive", "flat", "hierarchical", "two_dimensional"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mn
