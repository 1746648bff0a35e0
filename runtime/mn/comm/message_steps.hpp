/// Messages between every two of some ranks, of which a few are in flight at a time.
///
/// OrderedReducer and exchange_parts() make one on all ranks at once. In step s rank r sends to rank r + s and receives
/// from rank r - s, so no two ranks send to the same one in a step.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include <mpi.h>

#include <mn/comm/call_limits.hpp>

namespace mn {

/// Steps 1 … size - 1, each a receive and a send.
class MessageSteps {
 public:
  using Pair = std::array<MPI_Request, 2>;
  using Post = std::function<void(int step, Pair& requests)>;

  MessageSteps() = default;
  /// `post` starts the messages of a step; what it leaves MPI_REQUEST_NULL is not waited for.
  MessageSteps(int size, std::string_view what, Post post) : size_(size), what_(what), post_(std::move(post)) {
    while (posted_ < std::min(kWindow, size_ - 1)) post_next();
  }
  /// Returns when all messages are done.
  void finish() {
    for (int step = 1; step < size_; ++step) {
      mpi_wait(at(step), what_);
      if (posted_ < size_ - 1) post_next();
    }
    size_ = 1;
  }

 private:
  /// Steps in flight: enough to fill a network of 400 Gbit/s whose messages take microseconds.
  static constexpr int kWindow = 8;

  [[nodiscard]] Pair& at(int step) { return in_flight_[static_cast<std::size_t>(step % kWindow)]; }
  void post_next() {
    ++posted_;
    at(posted_) = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    post_(posted_, at(posted_));
  }

  int size_ = 1;
  int posted_ = 0;
  std::string_view what_;
  Post post_;
  std::array<Pair, kWindow> in_flight_;
};

}  // namespace mn
