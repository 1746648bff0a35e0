/// Messages between every two ranks of a group, several of them in flight at a time.
///
/// In step s rank r sends to rank r + s and receives from rank r - s, so no two ranks send to one rank in a step.
///
/// Invariants:
/// 1. The number of steps in flight depends only on `bytes`, which is equal on all ranks, and only the constructor and
///    finish() post messages. Therefore all ranks post the messages of several objects in the same order, in which MPI
///    also matches them.
/// 2. A message of unexpected length, shorter or longer, is an error: CallMismatch.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <mpi.h>

namespace mn {

class MessageSteps {
 public:
  /// The messages of a step, one each way. An empty message is not sent, and its receiver does not wait for it.
  struct Step {
    std::span<std::byte> in;
    std::span<const std::byte> out;
  };
  /// Returns the buffers of the step in which this rank receives from rank `source` and sends to rank `dest`.
  using Find = std::function<Step(std::size_t source, std::size_t dest)>;

  MessageSteps() = default;
  MessageSteps(MPI_Comm comm, std::size_t bytes, std::string_view what, Find find);
  void finish();

 private:
  struct Flight {
    std::array<MPI_Request, 2> requests;  // a receive, and a send
    std::size_t expected;                 // number of bytes to receive
  };
  [[nodiscard]] Flight& at(int step) { return in_flight_[static_cast<std::size_t>(step) % in_flight_.size()]; }
  void post_next();

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int posted_ = 0;
  std::string_view what_;
  Find find_;
  std::vector<Flight> in_flight_;
};

}  // namespace mn
