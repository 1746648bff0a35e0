// Messages between two ranks: exchanges that would block, requests, mismatches, and debug mode.
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/count_limit.hpp"
#include "tests/comm/messages_fixture.hpp"

namespace mn {
namespace {

using testing::communicator;
using testing::for_each_type;
using ::testing::HasSubstr;
using testing::kMany;
using testing::kOddSizes;
using testing::Messages;
using testing::numbers;
using testing::of_rank;
using ::testing::ThrowsMessage;

TEST_F(Messages, RanksPassOnInARing) {
  const std::pair<std::shared_ptr<Communicator>, std::size_t> cases[] = {
      {comm_, INT_MAX}, {communicator(true), INT_MAX}, {comm_, 1000}};
  for (const auto& [comm, most] : cases) {
    const CountLimit limit(most);
    for_each_type([&]<class T>() {
      for (const std::size_t count : kOddSizes) {
        std::vector<T> got(count);
        comm->sendrecv(of_rank<T>(rank_, count), next_, got, before_, 3);
        EXPECT_EQ(numbers(got), numbers(of_rank<T>(before_, count)));
      }
    });
    std::vector<float> got(kMany);
    comm->sendrecv(of_rank<float>(rank_, kMany), next_, got, before_);
    EXPECT_EQ(got, of_rank<float>(before_, kMany));
  }
}

TEST_F(Messages, SeveralAreUnderWayAtOnce_from_2_ranks) {
  const auto mine = of_rank<float>(rank_, kMany);
  const std::vector<int> few = {rank_, 2, 3};
  std::vector<float> many_got(kMany);
  std::vector<int> few_got(3);
  std::vector<int> none;
  Request sends[] = {comm_->isend(mine, next_, 5), comm_->isend(few, next_, 6), comm_->isend(none, next_, 7)};
  Request third = comm_->irecv(none, before_, 7);
  Request second = comm_->irecv(few_got, before_, 6);
  Request first = comm_->irecv(many_got, before_, Communicator::kAnyTag);
  third.wait();
  second.wait();
  while (!first.is_done()) std::this_thread::yield();
  first.wait();
  first.wait();
  EXPECT_EQ(many_got, of_rank<float>(before_, kMany));
  EXPECT_EQ(few_got, (std::vector<int>{before_, 2, 3}));
  Request moved = std::move(sends[0]);
  moved = std::move(sends[1]);
  moved.wait();
  EXPECT_TRUE(moved.is_done());
}

TEST_F(Messages, ARequestThatGoesAwayIsWaitedFor_from_2_ranks) {
  std::vector<float> got(kMany);
  const auto mine = of_rank<float>(rank_, kMany);
  {
    const Request received = comm_->irecv(got, before_);
    const Request sent = comm_->isend(mine, next_);
  }
  EXPECT_EQ(got, of_rank<float>(before_, kMany));
}

/// On new communicators: an error leaves elements behind.
TEST_F(Messages, AnotherTypeOrCountIsAnErrorOfTheReceiver_from_2_ranks) {
  const std::vector<float> sent = {1, 2};
  std::vector<std::int32_t> other_type(2);
  std::vector<float> other_count(kMany);
  const auto expect_error = [](auto call, const char* what) {
    EXPECT_THAT(call, ThrowsMessage<CommError>(HasSubstr(what)));
  };
  for (const bool blocks : {true, false}) {
    const auto receive = [&](Communicator& comm, BufferView buffer) {
      if (blocks) return static_cast<void>(comm.recv(buffer, 0));
      comm.irecv(buffer, 0).wait();
    };
    const auto types = communicator();
    if (rank_ == 0) types->send(sent, 1);
    if (rank_ == 1) {
      expect_error([&] { receive(*types, other_type); }, "recv from rank 0: 2 float32 came, 2 int32 were expected");
    }
    const auto counts = communicator();
    if (rank_ == 0) counts->send(sent, 1);
    if (rank_ == 1) {
      expect_error([&] { receive(*counts, other_count); }, "2 float32 came, 1000000 float32 were expected");
    }
    const auto objects = communicator();
    if (rank_ == 0) objects->send_obj("an object", 1);
    if (rank_ == 1) expect_error([&] { receive(*objects, other_type); }, "receive with recv_obj");
  }
}

/// MPI must not write to memory that the caller may free.
TEST_F(Messages, AMismatchedReceiveLeavesItsBufferAlone_from_2_ranks) {
  const auto comm = communicator();
  constexpr std::size_t kLarge = 10 * kMany;
  const auto sent = of_rank<float>(0, kLarge);
  const std::vector<std::int32_t> untouched(kLarge, -1);
  std::vector<std::int32_t> got(kLarge);
  Request request;
  if (rank_ == 0) request = comm->isend(sent, 1);
  if (rank_ == 1) {
    EXPECT_THROW(comm->irecv(got, 0).wait(), CommError);
    got = untouched;
  }
  for (int i = 0; i < 100; ++i) comm->barrier();
  EXPECT_TRUE(rank_ != 1 || got == untouched);
  request.wait();
}

/// No payload follows a header without elements: a loop over is_done() must end.
TEST_F(Messages, AMismatchedReceiveIsDone_from_2_ranks) {
  const auto comm = communicator();
  std::vector<float> got(10);
  if (rank_ == 0) comm->send(std::vector<float>(), 1);
  if (rank_ == 1) {
    Request request = comm->irecv(got, 0);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!request.is_done() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_TRUE(request.is_done());
    EXPECT_THAT([&] { request.wait(); }, ThrowsMessage<CommError>(HasSubstr("0 float32 came, 10 float32")));
  }
}

/// A first message holds up to 8 KiB of elements.
TEST_F(Messages, CountsAboutTheSizeOfAFirstMessage_from_2_ranks) {
  for (const std::size_t count : {0, 1, 2047, 2048, 2049, 4096}) {
    const auto mine = of_rank<float>(rank_, count);
    for (const bool send_blocks : {true, false}) {
      for (const bool receive_blocks : {true, false}) {
        std::vector<float> got(count);
        Request received, sent;
        if (!receive_blocks) received = comm_->irecv(got, before_);
        if (!send_blocks || rank_ % 2 == 1) sent = comm_->isend(mine, next_);
        if (send_blocks && rank_ % 2 == 0) comm_->send(mine, next_);
        if (receive_blocks) comm_->recv(got, before_);
        received.wait();
        sent.wait();
        EXPECT_EQ(got, of_rank<float>(before_, count)) << count;
      }
    }
  }
}

TEST_F(Messages, AMismatchedReceiveTakesElementsThatFollowLater_from_2_ranks) {
  const auto comm = communicator();
  constexpr int kCount = 10'000;  // more than a first message holds
  if (rank_ == 0) {               // isend()'s two messages, with time between them
    struct {
      std::uint32_t magic = 0x6d6e6d31;
      std::uint32_t dtype = static_cast<std::uint32_t>(DType::kFloat32);
      std::uint64_t count = kCount;
    } header;
    const std::vector<float> sent(kCount);
    MPI_Send(&header, sizeof header, MPI_BYTE, 1, 0, comm->mpi_comm());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Issend(sent.data(), kCount, MPI_FLOAT, 1, 0, comm->mpi_comm(), &request);
    int received = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (received == 0 && std::chrono::steady_clock::now() < end) MPI_Test(&request, &received, MPI_STATUS_IGNORE);
    EXPECT_EQ(received, 1) << "the sender waits for a receive that has been cancelled";
  }
  std::vector<std::int32_t> got(kCount);
  if (rank_ == 1) {
    EXPECT_THROW(comm->irecv(got, 0).wait(), CommError);
  }
}

/// Whatever is sent.
TEST_F(Messages, InDebugModeEverySendWaits_on_2_ranks) {
  CommunicatorOptions options;
  options.device = Device();
  options.debug = true;
  const auto comm = create_communicator("flat", MPI_COMM_WORLD, options);
  std::vector<float> none;
  const auto begin = std::chrono::steady_clock::now();
  for (const bool object : {false, true}) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (comm->rank() == 0) {
      object ? comm->send_obj("text", 1) : comm->send(none, 1);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      object ? static_cast<void>(comm->recv_obj(0)) : static_cast<void>(comm->recv(none, 0));
    }
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(600));
}

TEST_F(Messages, DebugModeSaysThatASendWaits_on_2_ranks) {
  for (const bool both_send : {false, true}) {
    CommunicatorOptions options;
    options.device = Device();
    options.debug = true;
    const auto comm = create_communicator("flat", MPI_COMM_WORLD, options);
    std::vector<float> few(10);
    ::testing::internal::CaptureStderr();
    if (comm->rank() == 0) {
      comm->send(few, 1, 4);
      if (both_send) comm->recv(few, 1, 4);
    } else {
      Request request;
      if (both_send) request = comm->isend(few, 0, 4);
      std::this_thread::sleep_for(std::chrono::seconds(4));
      comm->recv(few, 0, 4);
      request.wait();
    }
    const std::string text = ::testing::internal::GetCapturedStderr();
    if (comm->rank() != 0) continue;
    EXPECT_THAT(text, HasSubstr("debug mode: send of 10 float32 to rank 1 with tag 4 waits for its receiver"));
    EXPECT_EQ(text.find("both ranks send before they receive") != std::string::npos, both_send) << text;
  }
}

}  // namespace
}  // namespace mn
