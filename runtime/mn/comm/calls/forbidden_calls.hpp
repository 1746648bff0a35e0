/// Finds collective calls in code that only some ranks run. Such a call would wait forever for the remaining ranks.
#pragma once

#include <mn/core/error.hpp>

namespace mn {

/// Thrown by a call of a communicator that is made while a ForbiddenCalls lives.
class ForbiddenCall : public Error {
 public:
  using Error::Error;
};

/// While a ForbiddenCalls lives, communicator calls on the thread that constructed the object throw ForbiddenCall
/// before they send. Objects may nest.
class ForbiddenCalls {
 public:
  ForbiddenCalls() noexcept { ++scopes_; }
  ~ForbiddenCalls() { --scopes_; }
  ForbiddenCalls(const ForbiddenCalls&) = delete;
  ForbiddenCalls& operator=(const ForbiddenCalls&) = delete;

  /// True if a ForbiddenCalls of the calling thread lives.
  [[nodiscard]] static bool any() noexcept { return scopes_ > 0; }

 private:
  static inline thread_local int scopes_ = 0;
};

}  // namespace mn
