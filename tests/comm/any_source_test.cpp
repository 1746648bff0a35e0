// Messages from whoever sends first: recv() and irecv() from kAnySource.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

#include "tests/comm/messages_fixture.hpp"

namespace {

std::atomic<bool> hides_from_any{false};

}  // namespace

/// Messages that a receive from any rank would take are not there yet.
extern "C" int MPI_Improbe(int source, int tag, MPI_Comm comm, int* found, MPI_Message* message, MPI_Status* status) {
  if (source != MPI_ANY_SOURCE || !hides_from_any) return PMPI_Improbe(source, tag, comm, found, message, status);
  *found = 0;
  return MPI_SUCCESS;
}

namespace mn {
namespace {

using testing::communicator;
using ::testing::HasSubstr;
using testing::kMany;
using testing::of_rank;
using ::testing::ThrowsMessage;

constexpr int kAnySource = Communicator::kAnySource;
constexpr int kAnyTag = Communicator::kAnyTag;

class AnySource : public testing::Messages {
 protected:
  /// 1 … size - 1, each once.
  void expect_all_others(std::vector<int> came) const {
    std::ranges::sort(came);
    std::vector<int> others;
    for (int r = 1; r < size_; ++r) others.push_back(r);
    EXPECT_EQ(came, others);
  }
};

TEST_F(AnySource, MessagesAreReceived) {
  for (const auto& comm : {comm_, communicator(true), communicator(false, 1000)}) {
    if (rank_ > 0) {
      comm->send(of_rank<float>(rank_, 1027), 0, rank_);
      continue;
    }
    std::vector<int> came;
    for (int r = 1; r < size_; ++r) {
      std::vector<float> got(1027);
      came.push_back(comm->recv(got, kAnySource, kAnyTag));
      EXPECT_EQ(got, of_rank<float>(came.back(), 1027));
    }
    expect_all_others(came);
  }
}

TEST_F(AnySource, RequestsAreUnderWayAtOnce) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{7}, kMany}) {
    for (const bool polls : {false, true}) {
      if (rank_ > 0) {
        comm_->isend(of_rank<float>(rank_, count), 0, 4).wait();
      } else {
        std::vector<std::vector<float>> got(static_cast<std::size_t>(size_ - 1), std::vector<float>(count));
        std::vector<Request> requests;
        for (auto& each : got) requests.push_back(comm_->irecv(each, kAnySource, 4));
        std::vector<int> came;
        for (std::size_t i = got.size(); i-- > 0;) {  // not in the order of the calls
          EXPECT_EQ(requests[i].source(), -1);
          while (polls && !requests[i].is_done()) std::this_thread::yield();
          requests[i].wait();
          came.push_back(requests[i].source());
          EXPECT_EQ(got[i], of_rank<float>(came.back(), count));
        }
        expect_all_others(came);
      }
      comm_->barrier();  // so that no rank sends twice while another has not
    }
  }
}

/// As MPI promises: it does not matter which is waited for first, nor whether the messages are there before.
TEST_F(AnySource, ReceivesTakeMessagesInTheOrderOfTheirCalls) {
  if (alone()) return;
  for (const bool sent_before : {false, true}) {
    if (rank_ == 1) {
      if (!sent_before) comm_->barrier();
      for (int i = 1; i <= 4; ++i) comm_->send(of_rank<float>(i, 10), 0, 5);
      comm_->send(of_rank<float>(5, 10), 0, 6);
      comm_->send_obj("an object", 0, 5);
      if (sent_before) comm_->barrier();
      continue;
    }
    if (sent_before || rank_ > 1) comm_->barrier();
    if (rank_ > 1) continue;
    std::vector<std::vector<float>> got(5, std::vector<float>(10));
    Request from_any = comm_->irecv(got[0], kAnySource, 5);
    Request from_one = comm_->irecv(got[1], 1, 5);
    Request of_any_tag = comm_->irecv(got[2], 1, kAnyTag);
    Request of_other_tag = comm_->irecv(got[4], kAnySource, 6);
    if (!sent_before) comm_->barrier();
    EXPECT_EQ(comm_->recv(got[3], kAnySource, 5), 1);
    EXPECT_EQ(comm_->recv_obj(kAnySource, 5), "an object");
    of_any_tag.wait();
    from_one.wait();
    from_any.wait();
    of_other_tag.wait();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], of_rank<float>(i + 1, 10));
    EXPECT_EQ(from_any.source(), 1);
    EXPECT_EQ(from_one.source(), 1);
    const Request moved = std::move(from_any);
    EXPECT_EQ(moved.source(), 1);
  }
}

/// Nor does one take what came for another before it, which has looked too early.
TEST_F(AnySource, NoReceiveOvertakesAnother) {
  if (alone() || rank_ > 1) return;
  if (rank_ == 1) {
    for (int i = 1; i <= 2; ++i) comm_->send(of_rank<float>(i, 10), 0, 5);
    return;
  }
  std::vector<float> from_any(10);
  std::vector<float> from_one(10);
  hides_from_any = true;
  Request first = comm_->irecv(from_any, kAnySource, 5);
  Request second = comm_->irecv(from_one, 1, 5);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (std::chrono::steady_clock::now() < end) EXPECT_FALSE(second.is_done());
  hides_from_any = false;
  second.wait();
  first.wait();
  EXPECT_EQ(from_any, of_rank<float>(1, 10));
  EXPECT_EQ(from_one, of_rank<float>(2, 10));
}

/// A receive does not wait behind one that its message does not match.
TEST_F(AnySource, AReceiveOfAnyTagPassesAnother) {
  if (alone()) return;
  if (rank_ == 1) {
    comm_->send(of_rank<float>(1, 10), 0, 6);
    comm_->send(of_rank<float>(2, 10), 0, 5);
  } else if (rank_ == 0) {
    std::vector<float> of_tag(10);
    std::vector<float> of_any_tag(10);
    Request request = comm_->irecv(of_tag, kAnySource, 5);
    EXPECT_EQ(comm_->recv(of_any_tag, 1, kAnyTag), 1);
    request.wait();
    EXPECT_EQ(of_any_tag, of_rank<float>(1, 10));
    EXPECT_EQ(of_tag, of_rank<float>(2, 10));
  }
}

/// A send ends once its receive is posted, whatever the receiver waits for then.
TEST_F(AnySource, ALargeSendEndsBeforeItsReceiveIsAsked) {
  const std::vector<std::function<void()>> waits = {
      [&] { comm_->barrier(); },
      [&] { static_cast<void>(comm_->allgather_obj("an object")); },
      [] { MPI_Barrier(MPI_COMM_WORLD); },
  };
  for (const auto& wait : waits) {
    std::vector<std::vector<float>> got(static_cast<std::size_t>(size_), std::vector<float>(kMany));
    std::vector<Request> requests;
    for (int r = 1; r < size_ && rank_ == 0; ++r) {
      requests.push_back(comm_->irecv(got[static_cast<std::size_t>(r)], kAnySource, 7));
    }
    if (rank_ > 0) comm_->send(of_rank<float>(rank_, kMany), 0, 7);
    wait();
    for (int r = 1; r < size_ && rank_ == 0; ++r) {
      Request& request = requests[static_cast<std::size_t>(r - 1)];
      request.wait();
      EXPECT_EQ(got[static_cast<std::size_t>(r)], of_rank<float>(request.source(), kMany));
    }
    comm_->barrier();  // so that no rank sends twice while another has not
  }
}

TEST_F(AnySource, AMismatchNamesItsSender) {
  if (alone()) return;
  const auto comm = communicator();
  if (rank_ == 1) comm->send(std::vector<float>{1, 2}, 0);
  if (rank_ == 0) {
    std::vector<std::int32_t> other_type(2);
    Request request = comm->irecv(other_type, kAnySource);
    EXPECT_THAT([&] { request.wait(); },
                ThrowsMessage<CommError>(HasSubstr("recv from rank 1: 2 float32 came, 2 int32 were expected")));
    EXPECT_EQ(request.source(), -1);
  }
}

TEST_F(AnySource, ARequestThatNobodyAnswersTimesOut) {
  const auto comm = communicator();
  comm->set_timeout(std::chrono::milliseconds(200));
  static std::vector<float> got(10);  // lives on, as after every call that has timed out
  Request request = comm->irecv(got, kAnySource);
  EXPECT_THROW(request.wait(), CommError);
  EXPECT_TRUE(comm->has_given_up());
}

TEST_F(AnySource, ARequestThatOutlivesItsCommunicatorSaysSo) {
  std::vector<float> got(10);
  Request request;
  {
    const auto comm = communicator();
    request = comm->irecv(got, kAnySource);
  }
  EXPECT_THAT([&] { static_cast<void>(request.is_done()); }, ThrowsMessage<ArgumentError>(HasSubstr("irecv")));
  EXPECT_THROW(request.wait(), ArgumentError);
}

TEST_F(AnySource, AnExceptionLeavesTheRequestBehind) {
  const auto comm = communicator();
  std::vector<float> got(10);
  try {
    const Request request = comm->irecv(got, kAnySource);
    throw std::runtime_error("while it is under way");
  } catch (const std::runtime_error&) {
  }
  comm->barrier();
}

}  // namespace
}  // namespace mn
