/// A communicator and neighbors in a ring, for tests of messages between two ranks.
#pragma once

#include <climits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>

#include "tests/comm/values.hpp"

namespace mn::testing {

inline constexpr std::size_t kMany = 1'000'000;  // more elements than MPI's buffers take

inline std::shared_ptr<Communicator> communicator(bool debug = false) {
  CommunicatorOptions options;
  options.device = Device();
  options.debug = debug;
  return create_communicator("flat", MPI_COMM_WORLD, options);
}

template <class T>
std::vector<T> of_rank(int rank, std::size_t count) {
  return filled<T>(count, [&](std::size_t i) { return pattern(rank, i); });
}

class Messages : public ::testing::Test {
 protected:
  std::shared_ptr<Communicator> comm_ = communicator();
  int rank_ = comm_->rank();
  int size_ = comm_->size();
  int next_ = (rank_ + 1) % size_;
  int before_ = (rank_ + size_ - 1) % size_;
};

}  // namespace mn::testing
