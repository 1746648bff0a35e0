/// Finds collective calls before they are made, in code that only some ranks run: such a call would wait forever for
/// the remaining ranks.
#pragma once

#include <mn/core/error.hpp>

namespace mn {

/// A communicator was called within the life of a ForbiddenCalls.
class ForbiddenCall : public Error {
 public:
  using Error::Error;
};

/// While it lives, communicators' calls of the constructing thread throw ForbiddenCall before they send. Several may
/// nest.
class ForbiddenCalls {
 public:
  ForbiddenCalls() noexcept;
  ~ForbiddenCalls();
  ForbiddenCalls(const ForbiddenCalls&) = delete;
  ForbiddenCalls& operator=(const ForbiddenCalls&) = delete;

  /// Whether the calling thread has one.
  [[nodiscard]] static bool any() noexcept;
};

}  // namespace mn
