// Messages under way while their ranks make collective calls: neither delays the other or takes messages of the other.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>

#include "tests/comm/messages_fixture.hpp"

namespace {

std::atomic<int> probes{0};

}  // namespace

extern "C" int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* found, MPI_Status* status) {
  ++probes;
  return PMPI_Iprobe(source, tag, comm, found, status);
}

namespace mn {
namespace {

using testing::kMany;
using testing::of_rank;

/// A backend, and the number of nodes: rank r is on node r % nodes.
class MessagesBesideCollectives : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  MessagesBesideCollectives() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    setenv("MN_NODE_NAME", ("node" + std::to_string(rank % std::get<1>(GetParam()))).c_str(), 1);
    CommunicatorOptions options;
    options.device = Device();
    comm_ = create_communicator(std::get<0>(GetParam()), MPI_COMM_WORLD, options);
    unsetenv("MN_NODE_NAME");
    rank_ = comm_->rank();
    size_ = comm_->size();
  }
  /// Ranks 0 and 1 exchange a message; other ranks only take part in collective calls.
  [[nodiscard]] bool is_sender() const { return size_ > 1 && rank_ == 0; }
  [[nodiscard]] bool is_receiver() const { return rank_ == 1; }
  void expect_sum(std::size_t count) {
    std::vector<float> values(count, 1.0F);
    comm_->allreduce(values);
    EXPECT_EQ(values, std::vector<float>(count, static_cast<float>(size_)));
  }

  std::shared_ptr<Communicator> comm_;
  int rank_ = 0;
  int size_ = 1;
};

TEST_P(MessagesBesideCollectives, AReceiveOfAnyTagTakesNoInternalMessage) {
  std::vector<float> got(kMany);
  Request received;
  if (is_receiver()) received = comm_->irecv(got, 0, Communicator::kAnyTag);
  expect_sum(kMany);
  std::vector<float> part(1000);
  comm_->reduce_scatter(std::vector<float>(1000 * static_cast<std::size_t>(size_), 1.0F), part);
  EXPECT_EQ(part, std::vector<float>(1000, static_cast<float>(size_)));
  const std::vector<std::string> objects(static_cast<std::size_t>(size_), "an object");
  EXPECT_EQ(comm_->scatter_obj(objects), "an object");
  EXPECT_EQ(comm_->allgather_obj("an object"), objects);
  if (is_sender()) comm_->send(of_rank<float>(0, kMany), 1, 7);
  received.wait();
  EXPECT_TRUE(!is_receiver() || got == of_rank<float>(0, kMany));
}

TEST_P(MessagesBesideCollectives, ASendEndsOnceItsReceiveIsPosted) {
  for (const std::size_t count : {std::size_t{10}, kMany}) {
    std::vector<float> got(4 * kMany);
    Request received;
    if (is_sender()) comm_->send(of_rank<float>(0, 4 * kMany), 1);
    if (is_receiver()) received = comm_->irecv(got, 0);
    expect_sum(count);
    received.wait();
    EXPECT_TRUE(!is_receiver() || got == of_rank<float>(0, 4 * kMany));
  }
}

TEST_P(MessagesBesideCollectives, AReceiveEndsOnceItsSendIsPosted) {
  for (const std::size_t count : {std::size_t{10}, kMany}) {
    const auto mine = of_rank<float>(0, 4 * kMany);
    std::vector<float> got(4 * kMany);
    Request sent;
    if (is_sender()) sent = comm_->isend(mine, 1);
    if (is_receiver()) comm_->recv(got, 0);
    expect_sum(count);
    sent.wait();
    EXPECT_TRUE(!is_receiver() || got == mine);
  }
}

/// A large message of the program's own, unknown to mn: waits in shared memory let MPI move it too.
TEST_P(MessagesBesideCollectives, RequestsOfTheProgramGoOn) {
  const auto message = of_rank<float>(0, 4 * kMany);
  std::vector<float> got(4 * kMany);
  MPI_Request sent = MPI_REQUEST_NULL;
  const int count = static_cast<int>(message.size());
  if (is_sender()) MPI_Isend(message.data(), count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, &sent);
  if (is_receiver()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    MPI_Recv(got.data(), count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT_EQ(got, message);
  }
  const int before = probes;
  expect_sum(10);
  const bool waits_in_shared_memory =
      is_sender() && size_ == 2 && comm_->name() == "hierarchical" && comm_->topology().inter_size == 1;
  EXPECT_TRUE(!waits_in_shared_memory || probes - before > 5) << probes - before;
  MPI_Wait(&sent, MPI_STATUS_IGNORE);
}

INSTANTIATE_TEST_SUITE_P(Backends, MessagesBesideCollectives,
                         ::testing::Combine(::testing::Values("naive", "flat", "hierarchical", "two_dimensional"),
                                            ::testing::Values(1, 2)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace mn
