// Notices of calls without an end that arrive after their communicator's end have no effect on further communicators.
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

using namespace std::chrono_literals;

class LateNotices : public ::testing::TestWithParam<std::string> {
 protected:
  LateNotices() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  [[nodiscard]] static std::shared_ptr<Communicator> create(std::chrono::milliseconds timeout,
                                                            MPI_Comm comm = MPI_COMM_WORLD) {
    CommunicatorOptions options;
    options.device = Device();
    options.timeout = timeout;
    return create_communicator(GetParam(), comm, options);
  }
  /// Makes calls and messages of every kind, more than on an earlier communicator.
  static void expect_works(Communicator& comm) {
    std::vector<int> all(static_cast<std::size_t>(comm.size()));
    std::iota(all.begin(), all.end(), 0);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::string> texts;
      for (const int rank : all) texts.push_back(std::to_string(rank + round));
      EXPECT_EQ(comm.allgather_obj(std::to_string(comm.rank() + round)), texts);
      std::vector<float> values(5000, 1.0F);
      comm.allreduce(values);
      EXPECT_EQ(values, std::vector<float>(5000, static_cast<float>(comm.size())));
      comm.barrier();
      std::vector<int> from_before(1);
      const std::vector<int> own = {comm.rank()};
      const int before = (comm.rank() + comm.size() - 1) % comm.size();
      comm.sendrecv(own, (comm.rank() + 1) % comm.size(), from_before, before);
      EXPECT_EQ(from_before.front(), before);
    }
  }
  [[nodiscard]] bool is_last() const { return rank_ == size_ - 1; }

  int rank_ = 0;
  int size_ = 1;
};

/// The first ranks ask for the last rank; the last rank comes in time, does not look, and destroys the communicator.
TEST_P(LateNotices, AQuestion) {
  for (int life = 0; life < 2; ++life) {
    const auto comm = create(2s);
    if (is_last()) std::this_thread::sleep_for(1100ms);
    comm->barrier();
  }
  expect_works(*create(60s));
}

/// Rank 0 gives up, and the other ranks destroy the communicator without a look.
TEST_P(LateNotices, ThatARankHasGivenUp_from_3_ranks) {
  MPI_Comm others = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_ == 0 ? MPI_UNDEFINED : 0, rank_, &others);
  {
    const auto comm = create(200ms);
    static std::vector<float> values(50'000);
    if (rank_ == 0) {
      EXPECT_THROW(comm->allreduce(values), CommError);
    } else {
      std::this_thread::sleep_for(500ms);
    }
  }
  if (rank_ > 0) {
    expect_works(*create(60s, others));
    MPI_Comm_free(&others);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_P(LateNotices, AnAbort) {
  const auto ended = create(60s);
  ended->finalize();
  const auto comm = create(60s);
  ended->abort("nobody waits");
  expect_works(*comm);
}

/// A wait with a time-out looks for notices, even of an ended communicator.
TEST_P(LateNotices, AreLookedForAfterTheEnd) {
  const auto comm = create(60s);
  std::vector<int> from_before(1);
  const std::vector<int> own = {rank_};
  const int before = (rank_ + size_ - 1) % size_;
  Request received = comm->irecv(from_before, before);
  Request sent = comm->isend(own, (rank_ + 1) % size_);
  comm->finalize();
  while (!received.is_done()) std::this_thread::yield();
  received.wait();
  sent.wait();
  EXPECT_EQ(from_before.front(), before);
}

INSTANTIATE_TEST_SUITE_P(Backends, LateNotices, ::testing::Values("flat", "hierarchical"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mn
