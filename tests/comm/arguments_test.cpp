// Calls with wrong arguments throw on their rank before anything is sent.
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Arguments : public ::testing::Test {
 protected:
  Arguments() {
    CommunicatorOptions options;
    options.device = Device();
    comm_ = create_communicator("flat", MPI_COMM_WORLD, options);
    ranks_ = static_cast<std::size_t>(comm_->size());
    two_.resize(2);
    parts_.resize(2 * ranks_);
    short_.resize(2 * ranks_ + 1);
  }
  /// The communicator still works: no message of a rejected call is in flight.
  void TearDown() override {
    std::vector<int> one{1};
    comm_->allreduce(one);
    EXPECT_EQ(one[0], comm_->size());
  }

  std::shared_ptr<Communicator> comm_;
  std::size_t ranks_ = 1;
  std::vector<float> two_;
  std::vector<float> parts_;
  std::vector<float> short_;
};

TEST_F(Arguments, RanksOutOfRange) {
  for (const int bad : {-1, comm_->size()}) {
    EXPECT_THROW(comm_->bcast(two_, bad), ArgumentError);
    EXPECT_THROW(comm_->gather(two_, parts_, bad), ArgumentError);
    EXPECT_THROW(comm_->scatter(parts_, two_, bad), ArgumentError);
    EXPECT_THROW(comm_->send(two_, bad), ArgumentError);
    EXPECT_THROW(comm_->recv(two_, bad), ArgumentError);
    EXPECT_THROW(static_cast<void>(comm_->bcast_obj(std::string("x"), bad)), ArgumentError);
    EXPECT_THROW(static_cast<void>(comm_->gather_obj(std::string("x"), bad)), ArgumentError);
  }
  EXPECT_THAT([&] { comm_->bcast(two_, 99); },
              ThrowsMessage<ArgumentError>(HasSubstr("bcast: root 99 is out of range")));
}

TEST_F(Arguments, TagsOutOfRange) {
  EXPECT_THROW(comm_->send(two_, 0, -1), ArgumentError);
  EXPECT_THROW(comm_->recv(two_, 0, Communicator::kMaxTag + 1), ArgumentError);
  EXPECT_THROW(comm_->send(two_, comm_->rank() == 0 ? 1 : 0, Communicator::kAnyTag), ArgumentError);
}

TEST_F(Arguments, MessagesToOneself) {
  std::vector<float> many(1'000'000);
  const int self = comm_->rank();
  EXPECT_THAT([&] { comm_->send(many, self); }, ThrowsMessage<ArgumentError>(HasSubstr("is this rank itself")));
  EXPECT_THROW(comm_->recv(two_, self), ArgumentError);
  EXPECT_THROW(comm_->send_obj("x", self), ArgumentError);
  EXPECT_THROW(static_cast<void>(comm_->recv_obj(self)), ArgumentError);
}

TEST_F(Arguments, OfTheReceiveInASendrecv_from_2_ranks) {
  const int next = (comm_->rank() + 1) % comm_->size();
  EXPECT_THROW(comm_->sendrecv(two_, next, parts_, 99), ArgumentError);
  comm_->barrier();
  int came = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_->mpi_comm(), &came, MPI_STATUS_IGNORE);
  EXPECT_EQ(came, 0) << "a message was sent";
}

TEST_F(Arguments, WrongLengths) {
  EXPECT_THROW(comm_->allgather(two_, short_), ArgumentError);
  EXPECT_THROW(comm_->reduce_scatter(short_, two_), ArgumentError);
  EXPECT_THROW(comm_->alltoall(parts_, short_), ArgumentError);
  if (ranks_ > 1) {
    EXPECT_THROW(comm_->alltoall(short_, short_), ArgumentError);
  }
  if (comm_->rank() == 0) {
    EXPECT_THROW(comm_->gather(two_, short_), ArgumentError);
    EXPECT_THROW(comm_->scatter(short_, two_), ArgumentError);
    EXPECT_THROW(static_cast<void>(comm_->scatter_obj(std::vector<std::string>(ranks_ + 1))), ArgumentError);
  }
}

TEST_F(Arguments, DifferentTypes) {
  std::vector<double> wide(2 * ranks_);
  EXPECT_THROW(comm_->allgather(two_, wide), ArgumentError);
}

TEST_F(Arguments, NoMemory) {
  EXPECT_THROW(comm_->bcast(BufferView(nullptr, 3, DType::kFloat32)), ArgumentError);
  EXPECT_THROW(comm_->allreduce(BufferView(nullptr, 3, DType::kFloat32)), ArgumentError);
}

TEST_F(Arguments, MemoryOfAnotherDevice) {
  const BufferView elsewhere(two_.data(), 2, DType::kFloat32, {DeviceType::kCuda, 1});
  EXPECT_THAT([&] { comm_->allreduce(elsewhere); },
              ThrowsMessage<ArgumentError>(HasSubstr("lies on cuda:1, but the communicator's device is cpu")));
}

TEST_F(Arguments, Overlap_from_2_ranks) {
  const auto shifted = BufferView(parts_).slice(1, 2);
  EXPECT_THROW(comm_->allgather(shifted, parts_), ArgumentError);
  EXPECT_THROW(comm_->reduce_scatter(parts_, shifted), ArgumentError);
}

TEST(Registry, AnUnknownNameListsTheKnown) {
  EXPECT_THAT([] { static_cast<void>(create_communicator("nave")); },
              ThrowsMessage<UsageError>(
                  ::testing::AllOf(HasSubstr("unknown communicator \"nave\""), HasSubstr("auto, naive, flat"))));
}

TEST(Registry, AutoIsOneOfTheNames) {
  const auto comm = create_communicator();
  EXPECT_THAT(communicator_names(DeviceType::kCpu), ::testing::Contains(comm->name()));
}

TEST(Messages, ALongerOneThanExpectedIsACommError_from_2_ranks) {
  const auto comm = create_communicator("naive");
  std::vector<float> three(3);
  std::vector<float> two(2);
  if (comm->rank() == 0) comm->send(three, 1);
  if (comm->rank() == 1) {
    EXPECT_THAT([&] { comm->recv(two, 0); },
                ThrowsMessage<CommError>(HasSubstr("recv from rank 0: 3 float32 came, 2 float32 were expected")));
  }
}

TEST(Messages, AShorterOneThanExpectedIsACommError_from_2_ranks) {
  const auto comm = create_communicator("naive");
  std::vector<float> three(3);
  std::vector<float> two(2);
  if (comm->rank() == 0) comm->send(two, 1);
  if (comm->rank() == 1) {
    EXPECT_THAT([&] { comm->recv(three, 0); },
                ThrowsMessage<CommError>(HasSubstr("2 float32 came, 3 float32 were expected")));
  }
}

TEST_F(Arguments, CountsOfOtherLengths) {
  const std::vector<std::size_t> counts(ranks_, 2);
  const std::vector<std::size_t> more(ranks_ + 1, 2);
  EXPECT_THAT([&] { comm_->allgatherv(two_, short_, counts); },
              ThrowsMessage<ArgumentError>(HasSubstr("its counts add up to " + std::to_string(2 * ranks_))));
  EXPECT_THROW(comm_->allgatherv(two_, parts_, more), ArgumentError);
  EXPECT_THROW(comm_->gatherv(parts_, parts_, counts, comm_->size()), ArgumentError);
  EXPECT_THROW(comm_->alltoallv(parts_, more, short_, counts), ArgumentError);
  EXPECT_THROW(comm_->scatterv(parts_, counts, std::span(short_).first(1), comm_->rank()), ArgumentError);
  EXPECT_THAT([&] { comm_->allgatherv(std::span(parts_).first(2), parts_, counts); },
              ThrowsMessage<ArgumentError>(HasSubstr("send and recv overlap")));
}

/// A negative difference of counts has such a sum.
TEST_F(Arguments, CountsWhoseSumWrapsAround_from_2_ranks) {
  const auto own = static_cast<std::size_t>(comm_->rank());
  std::vector<std::size_t> sent(ranks_, 0);
  sent[own] = std::size_t{0} - 1;
  auto came = sent;
  sent[(own + 1) % ranks_] = came[(own + ranks_ - 1) % ranks_] = 3;
  std::vector<float> got(2);
  EXPECT_THAT([&] { comm_->alltoallv(two_, sent, got, came); },
              ThrowsMessage<ArgumentError>(HasSubstr("more than send has")));
}

/// A rank copies its own part by itself.
TEST_F(Arguments, AnotherCountOfItsOwnPart) {
  const std::vector<std::size_t> counts(ranks_, 1);
  auto more = counts;
  more[static_cast<std::size_t>(comm_->rank())] = 3;
  const std::vector<float> sent(ranks_ + 2);
  std::vector<float> got(ranks_);
  EXPECT_THAT([&] { comm_->alltoallv(sent, more, got, counts); },
              ThrowsMessage<ArgumentError>(HasSubstr("send count for itself is 3, its receive count 1")));
}

}  // namespace
}  // namespace mn
