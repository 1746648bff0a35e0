/// The result of a nonblocking call: a message or a collective call that is under way while the program computes.
#pragma once

#include <memory>

namespace mn {

/// Result of Communicator::isend(), irecv(), iallreduce() and the other nonblocking calls. The buffers must live until
/// wait() has returned or thrown. Until then do not touch a receive buffer, and do not write to a send buffer. Only one
/// thread at a time may use a Request.
class [[nodiscard]] Request {
 public:
  /// Makes a request that waits for nothing.
  Request() noexcept;
  /// Calls wait(), and logs the error if wait() throws. While an exception unwinds the stack, or after MPI_Finalize,
  /// the destructor does not wait, and MPI or the background thread may continue the call.
  ~Request();
  /// Takes over the call of `other`. `other` holds no call afterwards.
  Request(Request&& other) noexcept;
  /// Takes over the call of `other`, and waits for the call that this request has held so far. `other` holds no call
  /// afterwards.
  Request& operator=(Request&& other) noexcept;

  /// Blocks until the message or the result has arrived or, for a send, until the buffer may be used again. Throws
  /// CommError as the blocking form of the call does. A second wait() does nothing.
  void wait();
  /// True if wait() would return or throw at once.
  [[nodiscard]] bool is_done();

  class Impl;

 private:
  friend class Communicator;
  explicit Request(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;  // null: nothing under way
};

/// A call under way. Each kind of call derives its own class.
class Request::Impl {
 public:
  Impl() = default;
  virtual ~Impl() = default;
  Impl(const Impl&) = delete;             ///< not copyable
  Impl& operator=(const Impl&) = delete;  ///< not copyable
  /// Does the work of Request::wait().
  virtual void wait() = 0;
  /// Does the work of Request::is_done().
  virtual bool is_done() = 0;
  /// True if MPI may still use the object's memory after wait() has thrown. In this case the object is never destroyed.
  [[nodiscard]] virtual bool is_in_use() const noexcept { return false; }
  /// While an exception unwinds the stack, or after MPI_Finalize, the destructor of Request calls abandon() instead of
  /// wait(). Afterwards this object is never destroyed.
  virtual void abandon() noexcept {}
};

}  // namespace mn
