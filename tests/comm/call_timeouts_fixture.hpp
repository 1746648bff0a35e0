/// Calls from which the last rank stays away, on each backend.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

namespace mn::testing {

inline constexpr std::chrono::milliseconds kCallTimeout{200};  // time-out that ends the calls

/// Each test on each backend; the last rank stays away from its calls.
class CallTimeouts : public ::testing::TestWithParam<std::string> {
 protected:
  CallTimeouts() {
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
  /// Text of the error that `call` throws; empty if it returns.
  template <class Call>
  [[nodiscard]] static std::string error_of(const Call& call) {
    try {
      call();
    } catch (const CommError& error) {
      return error.what();
    }
    return {};
  }
  /// Matches a message that names the last rank as missing. On a busy machine other ranks may be named too, if their
  /// answers are late.
  [[nodiscard]] auto names_the_last() const {
    return ::testing::ContainsRegex("rank[^:]* " + std::to_string(size_ - 1) + " ha(s|ve) not joined it");
  }
  /// Brings the ranks together again, whatever happened to their communicators.
  static void meet() { MPI_Barrier(MPI_COMM_WORLD); }

  int rank_ = 0;
  int size_ = 1;
  std::string last_;
};

}  // namespace mn::testing
