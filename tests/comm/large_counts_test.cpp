// Counts above INT_MAX with real memory; skipped if memory is short. collectives_test and nodes_test take the same
// paths with small limits.
#include <climits>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>

namespace mn {
namespace {

constexpr std::size_t kCount = static_cast<std::size_t>(INT_MAX) + 9;
constexpr std::size_t kNeededKiB = 7UL << 20;  // a buffer on each of two ranks, twice

std::size_t available_kib() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::size_t value = 0;
  while (file >> key >> value && key != "MemAvailable:") file.ignore(100, '\n');
  return value;
}

/// Indices at the ends, around INT_MAX, and some between.
std::vector<std::size_t> samples() {
  std::vector<std::size_t> indices{0, 1, INT_MAX - 1UL, INT_MAX, INT_MAX + 1UL, kCount - 1};
  for (std::size_t i = 0; i < kCount; i += 1'000'003) indices.push_back(i);
  return indices;
}

class LargeCounts : public ::testing::Test {
 protected:
  LargeCounts() {
    CommunicatorOptions options;
    options.device = Device();
    comm_ = create_communicator("two_dimensional", MPI_COMM_WORLD, options);
    std::vector<int> enough{available_kib() > kNeededKiB};
    comm_->allreduce(enough, ReduceOp::kMin);
    if (enough[0] != 0) data_.resize(kCount);
  }
  void fill(std::uint8_t value) {
    std::memset(data_.data(), value, kCount);
    for (const std::size_t i : samples()) data_[i] = static_cast<std::uint8_t>(value + i % 5);
  }
  /// Expects factor × (value + i % 5), modulo 256.
  void expect(int factor, int sum_of_values) {
    int wrong = 0;
    for (const std::size_t i : samples()) {
      wrong += data_[i] != static_cast<std::uint8_t>(sum_of_values + factor * static_cast<int>(i % 5));
    }
    wrong += data_[2] != static_cast<std::uint8_t>(sum_of_values);
    EXPECT_EQ(wrong, 0);
  }

  std::shared_ptr<Communicator> comm_;
  std::vector<std::uint8_t> data_;
};

TEST_F(LargeCounts, BcastSendRecvAndAllreduce) {
  if (data_.empty()) GTEST_SKIP() << "this takes 7 GiB of free memory";
  const int rank = comm_->rank();
  fill(static_cast<std::uint8_t>(100 + rank));
  comm_->bcast(data_, 1);
  expect(1, 101);
  if (rank == 0) comm_->send(data_, 1);
  if (rank == 1) {
    fill(0);
    comm_->recv(data_, 0);
    expect(1, 101);
  }
  fill(static_cast<std::uint8_t>(200 + rank));
  comm_->allreduce(data_);
  expect(2, 401);
}

}  // namespace
}  // namespace mn
