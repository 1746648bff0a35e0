/// Calls whose last rank stays away, on each backend.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

namespace mn::testing {

inline constexpr std::chrono::milliseconds kCallTimeout{200};  // calls are to end by it

/// Each test on each backend, by ranks of which the last one stays away.
class CallLimits : public ::testing::TestWithParam<std::string> {
 protected:
  CallLimits() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    last_ = "rank " + std::to_string(size_ - 1);
  }
  [[nodiscard]] std::shared_ptr<Communicator> create(std::chrono::milliseconds timeout = kCallTimeout) const {
    CommunicatorOptions options;
    options.device = Device();
    options.timeout = timeout;
    return create_communicator(GetParam(), MPI_COMM_WORLD, options);
  }
  [[nodiscard]] bool is_absent() const { return rank_ == size_ - 1; }
  /// What `call` throws; empty if it returns.
  template <class Call>
  [[nodiscard]] static std::string error_of(const Call& call) {
    try {
      call();
    } catch (const CommError& error) {
      return error.what();
    }
    return {};
  }
  /// The last rank is among those that a message says to be missing. On a busy machine so may be others, whose answers
  /// come late.
  [[nodiscard]] auto names_the_last() const {
    return ::testing::ContainsRegex("rank[^:]* " + std::to_string(size_ - 1) + " ha(s|ve) not joined it");
  }
  /// The ranks are here again, whatever happened to their communicators.
  static void meet() { MPI_Barrier(MPI_COMM_WORLD); }

  int rank_ = 0;
  int size_ = 1;
  std::string last_;
};

}  // namespace mn::testing
