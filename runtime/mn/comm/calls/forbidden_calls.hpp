/// Finds collective calls in code that only some ranks run. Such a call would wait forever for the remaining ranks.
#pragma once

#include <utility>

#include <mn/core/error.hpp>

namespace mn {

/// Thrown by a communicator call while a ForbiddenCalls lives.
class ForbiddenCall : public Error {
 public:
  using Error::Error;
};

/// While an object of this class lives, communicator calls on its thread throw ForbiddenCall. Objects may nest.
class ForbiddenCalls {
 public:
  ForbiddenCalls() noexcept { ++scopes_; }
  ~ForbiddenCalls() { --scopes_; }
  ForbiddenCalls(const ForbiddenCalls&) = delete;
  ForbiddenCalls& operator=(const ForbiddenCalls&) = delete;

  [[nodiscard]] static bool any() noexcept { return scopes_ > 0; }

 private:
  friend class CallsOfAllRanks;
  static inline thread_local int scopes_ = 0;
};

/// While an object lives, all ranks make the calling thread's calls, also ranks without samples. These calls are
/// allowed while a ForbiddenCalls lives, and collective_calls() does not count them.
class CallsOfAllRanks {
 public:
  CallsOfAllRanks() noexcept : forbidden_(std::exchange(ForbiddenCalls::scopes_, 0)) { ++scopes_; }
  ~CallsOfAllRanks() {
    --scopes_;
    ForbiddenCalls::scopes_ = forbidden_;
  }
  CallsOfAllRanks(const CallsOfAllRanks&) = delete;
  CallsOfAllRanks& operator=(const CallsOfAllRanks&) = delete;

  /// True if an object of the calling thread lives.
  [[nodiscard]] static bool any() noexcept { return scopes_ > 0; }

 private:
  static inline thread_local int scopes_ = 0;
  int forbidden_;
};

}  // namespace mn
