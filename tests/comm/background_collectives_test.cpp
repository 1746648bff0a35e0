// Nonblocking collective calls.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/comm/communication_thread.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/backends.hpp"

namespace {

std::atomic<bool> holds_threads{false};

}  // namespace

/// The thread that makes a communicator calls the communicator.
extern "C" int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  while (holds_threads && gettid() != getpid()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return PMPI_Allreduce(send, recv, count, type, op, comm);
}

namespace mn {
namespace {

using Floats = std::vector<float>;

class BackgroundCollectives : public ::testing::TestWithParam<std::string> {
 protected:
  BackgroundCollectives() : comm_(create()), rank_(comm_->rank()), size_(comm_->size()) {}
  [[nodiscard]] static std::shared_ptr<Communicator> create(std::chrono::milliseconds timeout = {}) {
    CommunicatorOptions options;
    options.device = Device();
    options.timeout = timeout;
    return create_communicator(GetParam(), MPI_COMM_WORLD, options);
  }
  /// Values whose sum depends on the order of addition.
  [[nodiscard]] Floats uneven(std::size_t count, int seed) const {
    std::mt19937 random(static_cast<unsigned>(seed * 100 + rank_));
    std::uniform_real_distribution<float> any(-1, 1);
    Floats values(count);
    std::ranges::generate(values, [&] { return any(random); });
    return values;
  }
  void expect_given_up() {
    EXPECT_TRUE(comm_->has_given_up());
    EXPECT_THROW(comm_->barrier(), CommError);
  }

  std::shared_ptr<Communicator> comm_;
  int rank_;
  int size_;
};

TEST_P(BackgroundCollectives, HaveTheBitsOfTheirBlockingForms) {
  for (const std::size_t count : {1UL, 1027UL, 70'001UL}) {
    const auto ranks = static_cast<std::size_t>(size_);
    Floats reduced = uneven(count, 1);
    Floats expected = reduced;
    Floats sent = uneven(count, 2);
    Floats all(count * ranks);
    Floats all_expected(count * ranks);
    const Floats parts = uneven(count * ranks, 3);
    Floats part(count);
    Floats part_expected(count);
    Floats given(count, static_cast<float>(rank_));
    Request first = comm_->iallreduce(reduced);
    Request second = comm_->iallgather(sent, all);
    Request third = comm_->ireduce_scatter(parts, part, ReduceOp::kMax);
    Request fourth = comm_->ibcast(given, size_ - 1);
    comm_->allreduce(expected);
    comm_->allgather(sent, all_expected);
    comm_->reduce_scatter(parts, part_expected, ReduceOp::kMax);
    fourth.wait();
    second.wait();
    third.wait();
    first.wait();
    EXPECT_EQ(reduced, expected);
    EXPECT_EQ(all, all_expected);
    EXPECT_EQ(part, part_expected);
    EXPECT_EQ(given, Floats(count, static_cast<float>(size_ - 1)));
  }
}

/// Each rank waits for many calls, in an order of its own.
TEST_P(BackgroundCollectives, AreWaitedForInAnyOrder) {
  constexpr int kCalls = 24;
  std::vector<Floats> buffers;
  std::vector<Request> requests;
  for (int i = 0; i < kCalls; ++i) buffers.emplace_back(500 + i, static_cast<float>(i + rank_));
  for (Floats& buffer : buffers) requests.push_back(comm_->iallreduce(buffer));
  std::vector<std::size_t> order(kCalls);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(rank_)));
  for (const std::size_t i : order) {
    requests[i].wait();
    EXPECT_TRUE(requests[i].is_done());
    const auto sum = static_cast<float>(static_cast<int>(i) * size_ + size_ * (size_ - 1) / 2);
    EXPECT_EQ(buffers[i], Floats(500 + i, sum));
  }
}

/// Meanwhile a rank may make further calls, and the remaining ranks wait for these calls before their own start.
TEST_P(BackgroundCollectives, DoNotHoldUpOtherCalls) {
  Floats sum(3000, 1);
  Floats message(70'000, 2);
  if (rank_ == 0) {
    Request request = comm_->iallreduce(sum);
    for (int dest = 1; dest < size_; ++dest) comm_->send(message, dest);
    request.wait();
  } else {
    comm_->recv(message, 0);
    comm_->iallreduce(sum).wait();
  }
  EXPECT_EQ(sum, Floats(3000, static_cast<float>(size_)));
}

/// One rank makes a communicator before waiting, the remaining ranks after waiting.
TEST_P(BackgroundCollectives, DoNotHoldUpNewCommunicators) {
  for (int i = 0; i < 3; ++i) {
    const auto comm = create();
    Floats sum(1000, 1);
    Request request = comm->iallreduce(sum);
    if (rank_ > 0) request.wait();
    const auto other = create();
    request.wait();
    other->barrier();
    EXPECT_EQ(sum, Floats(1000, static_cast<float>(size_)));
  }
}

TEST_P(BackgroundCollectives, EndWithTheRequest) {
  Floats sum(100, 1);
  { const Request request = comm_->iallreduce(sum); }
  EXPECT_EQ(sum, Floats(100, static_cast<float>(size_)));
}

TEST_P(BackgroundCollectives, CheckTheirArguments) {
  Floats sum(100, 1);
  EXPECT_THROW(static_cast<void>(comm_->ibcast(sum, size_)), ArgumentError);
  EXPECT_THROW(static_cast<void>(comm_->iallgather(sum, std::span(sum).first(50))), ArgumentError);
  std::vector<int> numbers(3);
  EXPECT_THROW(static_cast<void>(comm_->iallreduce(numbers, ReduceOp::kAverage)), ArgumentError);
  EXPECT_THROW(static_cast<void>(comm_->ireduce_scatter(sum, numbers)), ArgumentError);
  comm_->finalize();
  EXPECT_THROW(static_cast<void>(comm_->iallreduce(sum)), ArgumentError);
}

TEST_P(BackgroundCollectives, EndAtTheirTimeout_from_2_ranks) {
  static Floats first(100), second(100);
  comm_->iallreduce(first).wait();
  if (rank_ > 0) {
    const CallTimeout limit(*comm_, std::chrono::milliseconds(400));
    Request waiting = comm_->iallreduce(first);
    Request behind = comm_->iallreduce(second);
    EXPECT_THROW(waiting.wait(), CommError);
    EXPECT_THROW(behind.wait(), CommError);
    expect_given_up();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  expect_given_up();
}

/// The first call, in which the thread makes a communicator.
TEST_P(BackgroundCollectives, TheFirstEndsAtItsTimeoutToo_from_2_ranks) {
  static Floats values(100);
  if (rank_ > 0) {
    const CallTimeout limit(*comm_, std::chrono::milliseconds(400));
    Request waiting = comm_->iallreduce(values);
    EXPECT_THAT([&] { waiting.wait(); },
                ::testing::ThrowsMessage<CommError>(::testing::HasSubstr("has not joined it")));
    expect_given_up();
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// One rank's thread is held up in the call. The time-out of the call's start counts.
TEST_P(BackgroundCollectives, TheFirstEndsWhileTheThreadMakesItsCommunicator_from_2_ranks) {
  static Floats values(100);
  const auto comm = create();
  holds_threads = rank_ == 0;
  Request request = [&] {
    const CallTimeout limit(*comm, std::chrono::milliseconds(400));
    return comm->iallreduce(values);
  }();
  EXPECT_THROW(request.wait(), CommError);
  EXPECT_TRUE(comm->has_given_up());
  MPI_Barrier(MPI_COMM_WORLD);
  holds_threads = false;
  EXPECT_TRUE(CommunicationThread::wait_for_all(std::chrono::seconds(30)));
}

/// Rank 0 aborts and joins no call; the other ranks have a call in the background: their first, or a later one.
TEST_P(BackgroundCollectives, EndWhereARankAborts_from_2_ranks) {
  static Floats values(100);
  for (const bool is_first : {true, false}) {
    const auto comm = create(std::chrono::seconds(300));
    if (!is_first) comm->iallreduce(values).wait();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) {
      comm->abort("no more data");
    } else {
      Request request = comm->iallreduce(values);
      Request polled = comm->iallreduce(values);
      while (is_first && !polled.is_done()) std::this_thread::yield();  // before any wait has ended them
      EXPECT_THAT([&] { request.wait(); }, ::testing::ThrowsMessage<CommError>(::testing::HasSubstr("no more data")));
      while (!polled.is_done()) std::this_thread::yield();
      EXPECT_THROW(polled.wait(), CommError);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, BackgroundCollectives, ::testing::ValuesIn(testing::kBackendsOnOneNode),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mn
