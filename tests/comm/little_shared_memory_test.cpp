// Shared memory beside MPI's own in a small /dev/shm: run by more ranks than it has room for (small_shm).
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/messages/request.hpp>

namespace mn {
namespace {

class LittleSharedMemory : public ::testing::Test {
 protected:
  std::shared_ptr<Communicator> comm_ = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
};

/// MPI's own files in /dev/shm get their pages when messages need them.
TEST_F(LittleSharedMemory, LeavesRoomForMessages) {
  constexpr std::size_t kBytes = 500'000;
  constexpr std::size_t kMessages = 20;
  std::vector<std::shared_ptr<std::byte>> kept;
  for (int i = 0; i < 70; ++i) kept.push_back(comm_->allocate(kBytes));
  const int size = comm_->size();
  const auto rank = static_cast<float>(comm_->rank());
  const std::vector<float> sent(100'000, rank);
  std::vector<float> got(sent.size());
  std::vector<Request> requests;
  const bool has_peer = size > 1;
  for (std::size_t i = 0; has_peer && i < kMessages; ++i) {
    requests.push_back(comm_->isend(sent, (comm_->rank() + 1) % size));
  }
  for (std::size_t i = 0; has_peer && i < kMessages; ++i) comm_->recv(got, (comm_->rank() + size - 1) % size);
  for (Request& request : requests) request.wait();
  std::vector<float> all(sent.size() * static_cast<std::size_t>(size));
  for (int i = 0; i < 3; ++i) comm_->allgather(sent, all);
  EXPECT_EQ(all.back(), static_cast<float>(size - 1));
}

TEST_F(LittleSharedMemory, IsEnoughForEveryBackend) {
  constexpr std::size_t kPart = 20'000;
  for (const std::string& name : communicator_names(DeviceType::kCpu)) {
    const auto comm = create_communicator(name, MPI_COMM_WORLD, {.device = Device{}});
    const auto size = static_cast<std::size_t>(comm->size());
    for (const std::size_t count : {100UL, 50'000UL, 1'000'000UL}) {
      std::vector<float> values(count, 1.0F);
      comm->allreduce(values);
      EXPECT_EQ(std::ranges::count(values, static_cast<float>(size)), static_cast<std::ptrdiff_t>(count)) << name;
    }
    std::vector<float> sent(kPart * size, static_cast<float>(comm->rank()));
    std::vector<float> got(sent.size());
    comm->alltoall(sent, got);
    for (std::size_t r = 0; r < size; ++r) EXPECT_EQ(got[r * kPart], static_cast<float>(r)) << name;
  }
}

}  // namespace
}  // namespace mn
