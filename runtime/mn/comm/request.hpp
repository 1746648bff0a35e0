/// A message under way between two ranks, while the program goes on.
#pragma once

#include <memory>

namespace mn {

/// What Communicator::isend() and irecv() return. The buffer must live, and may not be touched (a send's may be read),
/// until wait() has returned or thrown. Local; one thread at a time.
class [[nodiscard]] Request {
 public:
  /// Nothing under way.
  Request() noexcept;
  /// Waits; logs an error. While an exception unwinds it waits for nobody and leaves the message to MPI.
  ~Request();
  /// `other` then has nothing under way.
  Request(Request&& other) noexcept;
  /// Waits for its own message first; `other` then has nothing under way.
  Request& operator=(Request&& other) noexcept;

  /// Blocks until the message has arrived, or until a send's buffer may be used again. Throws CommError as
  /// Communicator::recv() does. Calls after the first do nothing.
  void wait();
  /// Whether wait() would return at once.
  [[nodiscard]] bool is_done();

 private:
  friend class Communicator;
  class Impl;
  explicit Request(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;  // null: nothing under way
};

}  // namespace mn
