/// Every backend that computes on CPUs, with and without large-count types, for tests of collective calls.
#pragma once

#include <climits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>

#include "tests/comm/count_limit.hpp"
#include "tests/comm/values.hpp"

namespace mn::testing {

using testing::kOddSizes;
using testing::numbers;
using testing::pattern;

/// Backend and the limit of MPI's counts: with 13 elements per message, most sizes are "above INT_MAX".
class Collectives : public ::testing::TestWithParam<std::tuple<std::string, std::size_t>> {
 protected:
  Collectives() {
    CommunicatorOptions options;
    options.device = Device();
    comm_ = create_communicator(std::get<0>(GetParam()), MPI_COMM_WORLD, options);
  }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm_->size()); }
  [[nodiscard]] int last() const { return comm_->size() - 1; }

  /// body.operator()<T>(count) for each type and size.
  template <class Body>
  void each(const Body& body) {
    for_each_type([&]<class T>() {
      for (const std::size_t count : kOddSizes) {
        SCOPED_TRACE("count " + std::to_string(count));
        body.template operator()<T>(count);
      }
    });
  }
  template <class T>
  std::vector<T> mine(std::size_t count, int rank) {
    return filled<T>(count, [&](std::size_t i) { return pattern(rank, i); });
  }
  /// The parts of all ranks, by rank.
  template <class T>
  std::vector<double> all(std::size_t count) {
    std::vector<double> whole;
    for (int r = 0; r <= last(); ++r) {
      for (const double x : numbers(mine<T>(count, r))) whole.push_back(x);
    }
    return whole;
  }

  CountLimit limit_{std::get<1>(GetParam())};
  std::shared_ptr<Communicator> comm_;
};

}  // namespace mn::testing
