/// A message between two ranks, or a collective call, that is under way while the program goes on.
#pragma once

#include <memory>

namespace mn {

/// What Communicator::isend(), irecv(), iallreduce() and others like them return. The buffers must live, and may not be
/// touched (what is sent may be read), until wait() has returned or thrown. Local; one thread at a time.
class [[nodiscard]] Request {
 public:
  /// Nothing under way.
  Request() noexcept;
  /// Waits; logs an error. While an exception unwinds it waits for nobody and leaves the call to MPI, or to its thread.
  ~Request();
  /// `other` then has nothing under way.
  Request(Request&& other) noexcept;
  /// Waits for its own call first; `other` then has nothing under way.
  Request& operator=(Request&& other) noexcept;

  /// Blocks until the message or the result has arrived, or until a send's buffer may be used again. Throws CommError
  /// as the blocking form does. Calls after the first do nothing.
  void wait();
  /// Whether wait() would return at once.
  [[nodiscard]] bool is_done();

  class Impl;

 private:
  friend class Communicator;
  explicit Request(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;  // null: nothing under way
};

/// What is under way; the sources of communicators derive from it.
class Request::Impl {
 public:
  Impl() = default;
  virtual ~Impl() = default;
  Impl(const Impl&) = delete;             ///< not copyable
  Impl& operator=(const Impl&) = delete;  ///< not copyable
  /// As Request's.
  virtual void wait() = 0;
  /// As Request's.
  virtual bool is_done() = 0;
  /// Whether MPI may still use it after wait() has thrown: then it is left behind.
  [[nodiscard]] virtual bool is_in_use() const noexcept { return false; }
  /// Before it is left behind while an exception unwinds.
  virtual void abandon() noexcept {}
};

}  // namespace mn
