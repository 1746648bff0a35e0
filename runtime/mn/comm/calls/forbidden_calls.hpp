/// Finds collective calls before they are made: where one rank leaves code out, the others' calls in it would wait
/// forever.
#pragma once

#include <mn/core/error.hpp>

namespace mn {

/// A communicator was called where no rank may.
class ForbiddenCall : public Error {
 public:
  using Error::Error;
};

/// While it lives, a communicator's call by this thread throws ForbiddenCall before anything is sent. They nest.
class ForbiddenCalls {
 public:
  ForbiddenCalls() noexcept;
  ~ForbiddenCalls();
  ForbiddenCalls(const ForbiddenCalls&) = delete;
  ForbiddenCalls& operator=(const ForbiddenCalls&) = delete;

  /// Whether this thread is in one.
  [[nodiscard]] static bool any() noexcept;
};

}  // namespace mn
