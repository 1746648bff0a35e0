// recv(), recv_obj() and recv_json() from kAnySource take the message of any rank.
#include <algorithm>
#include <chrono>
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
using ::testing::HasSubstr;
using testing::kMany;
using testing::of_rank;
using ::testing::ThrowsMessage;

constexpr int kAnySource = Communicator::kAnySource;
constexpr int kAnyTag = Communicator::kAnyTag;

class AnySource : public testing::Messages {
 protected:
  /// `senders` must be ranks 1 to size - 1, each once.
  void expect_all_others(std::vector<int> senders) const {
    std::ranges::sort(senders);
    std::vector<int> others;
    for (int r = 1; r < size_; ++r) others.push_back(r);
    EXPECT_EQ(senders, others);
  }
};

TEST_F(AnySource, MessagesAreReceived) {
  const std::pair<std::shared_ptr<Communicator>, std::size_t> cases[] = {
      {comm_, INT_MAX}, {communicator(true), INT_MAX}, {comm_, 1000}};
  for (const auto& [comm, most] : cases) {
    const CountLimit limit(most);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1027}, kMany}) {
      if (rank_ > 0) {
        comm->send(of_rank<float>(rank_, count), 0, rank_);
      } else {
        std::vector<int> senders;
        for (int r = 1; r < size_; ++r) {
          std::vector<float> got(count);
          senders.push_back(comm->recv(got, kAnySource, kAnyTag));
          EXPECT_EQ(got, of_rank<float>(senders.back(), count));
        }
        expect_all_others(senders);
      }
      comm->barrier();  // each rank sends its next message only after rank 0 has received all
    }
  }
}

/// Requests that were posted before take the first messages of their rank: MPI's matching order.
TEST_F(AnySource, ARecvFollowsTheRequestsPostedBefore_from_2_ranks) {
  for (const bool sent_before : {false, true}) {
    if (rank_ == 1) {
      if (!sent_before) comm_->barrier();
      for (int i = 1; i <= 3; ++i) comm_->send(of_rank<float>(i, 10), 0, 5);
      comm_->send_obj("an object", 0, 5);
      if (sent_before) comm_->barrier();
      continue;
    }
    if (sent_before || rank_ > 1) comm_->barrier();
    if (rank_ > 1) continue;
    std::vector<std::vector<float>> got(3, std::vector<float>(10));
    Request of_tag = comm_->irecv(got[0], 1, 5);
    Request of_any_tag = comm_->irecv(got[1], 1, kAnyTag);
    if (!sent_before) comm_->barrier();
    EXPECT_EQ(comm_->recv(got[2], kAnySource, 5), 1);
    EXPECT_EQ(comm_->recv_obj(kAnySource, 5), "an object");
    of_any_tag.wait();
    of_tag.wait();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], of_rank<float>(i + 1, 10));
  }
}

TEST_F(AnySource, AMismatchNamesItsSender_from_2_ranks) {
  const auto comm = communicator();
  if (rank_ == 1) comm->send(std::vector<float>{1, 2}, 0);
  if (rank_ == 0) {
    std::vector<std::int32_t> other_type(2);
    EXPECT_THAT([&] { comm->recv(other_type, kAnySource); },
                ThrowsMessage<CommError>(HasSubstr("recv from rank 1: 2 float32 came, 2 int32 were expected")));
  }
}

TEST_F(AnySource, ARecvThatNobodyAnswersTimesOut) {
  const auto comm = communicator();
  comm->set_timeout(std::chrono::milliseconds(200));
  static std::vector<float> got(10);  // lives on, as after every call that has timed out
  EXPECT_THROW(comm->recv(got, kAnySource), CommError);
  EXPECT_TRUE(comm->has_given_up());
}

TEST_F(AnySource, RequestsNameTheirSource) {
  std::vector<float> got(10);
  EXPECT_THAT([&] { static_cast<void>(comm_->irecv(got, kAnySource)); },
              ThrowsMessage<ArgumentError>(HasSubstr("to receive from any rank, call recv()")));
}

}  // namespace
}  // namespace mn
