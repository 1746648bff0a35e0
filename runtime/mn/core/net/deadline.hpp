/// The type of deadlines, and the time that is left until a deadline.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace mn {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// The milliseconds until `deadline`, at most `longest`, for poll(2). 0 after the deadline. The time is rounded up, so
/// that poll(2) does not return just before the deadline.
[[nodiscard]] inline int milliseconds_until(
    Deadline deadline, std::chrono::milliseconds longest = std::chrono::milliseconds(std::numeric_limits<int>::max())) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, longest.count()));
}

}  // namespace mn
