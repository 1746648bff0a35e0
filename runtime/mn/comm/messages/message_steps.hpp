/// Messages between every two ranks of a group, a few of them in flight at a time.
///
/// MessageReducer and exchange_parts() make one on all ranks at once. In step s rank r sends to rank r + s and receives
/// from rank r - s: no two ranks send to one rank in a step.
///
/// Invariants:
/// 1. The number of steps in flight depends only on the common message size, and only the constructor and finish() post
///    steps. All ranks therefore post the messages of several objects in one order, and MPI matches them by order.
/// 2. A message of unexpected length, shorter or longer, is an error: CallMismatch.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <mpi.h>

#include <mn/comm/calls/call_limits.hpp>
#include <mn/comm/mpi/mpi.hpp>

namespace mn {

/// Throws CallMismatch if a message has not `expected` bytes.
void require_length(const MPI_Status& received, std::size_t expected, std::string_view what);

/// Steps 1 … size - 1, each a receive and a send.
class MessageSteps {
 public:
  using Pair = std::array<MPI_Request, 2>;  ///< a receive, and a send
  using Post = std::function<std::size_t(int step, Pair& requests)>;

  MessageSteps() = default;
  /// `post` starts the messages of a step, of at most `bytes` each, and returns the bytes that it receives. A request
  /// that it leaves MPI_REQUEST_NULL is not waited for.
  MessageSteps(int size, std::size_t bytes, std::string_view what, Post post)
      : size_(size), what_(what), post_(std::move(post)), in_flight_(window(bytes)), expected_(in_flight_.size()) {
    while (posted_ < std::min(static_cast<int>(in_flight_.size()), size_ - 1)) post_next();
  }
  /// Returns when all messages are done.
  void finish() {
    for (int step = 1; step < size_; ++step) {
      MPI_Status received = {};
      const bool receives = at(step)[0] != MPI_REQUEST_NULL;
      const std::size_t expected = expected_[static_cast<std::size_t>(step) % expected_.size()];
      mpi_wait({&at(step)[1], 1}, what_);
      mpi_wait(at(step)[0], &received, what_);
      if (receives) require_length(received, expected, what_);  // (2): MPI accepts shorter messages
      if (posted_ < size_ - 1) post_next();
    }
    size_ = 1;
  }

 private:
  /// Number of steps in flight: 1 MiB fills a network of 400 Gbit/s whose messages take microseconds. 8 to 64 messages:
  /// enough to hide latency, few enough not to flood the receiver (incast).
  static std::size_t window(std::size_t bytes) {
    constexpr std::size_t kBytes = 1024 * 1024;
    return std::clamp<std::size_t>(kBytes / std::max<std::size_t>(bytes, 1), 8, 64);
  }

  [[nodiscard]] Pair& at(int step) { return in_flight_[static_cast<std::size_t>(step) % in_flight_.size()]; }
  void post_next() {
    ++posted_;
    assert(posted_ < size_);
    at(posted_) = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    expected_[static_cast<std::size_t>(posted_) % expected_.size()] = post_(posted_, at(posted_));
  }

  int size_ = 1;
  int posted_ = 0;
  std::string_view what_;
  Post post_;
  std::vector<Pair> in_flight_;
  std::vector<std::size_t> expected_;  // bytes to receive in each step in flight
};

}  // namespace mn
