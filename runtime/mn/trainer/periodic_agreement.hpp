/// Agreement of all ranks on what only some of them know, such as clocks and signals.
///
/// An exchange in every iteration would cost a collective each. Instead the ranks exchange about every 0.1 s: rank 0
/// measures iterations and says, in each exchange, how many iterations later the next one is.
/// (1) The iteration of the next exchange is the same on all ranks, so all call exchange() together.
/// (2) The distance at most doubles from one exchange to the next, in case that iterations become slower.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <mn/comm/communicator.hpp>

namespace mn {

class PeriodicAgreement {
 public:
  /// The first exchange is due at once.
  void begin(std::int64_t iteration);
  [[nodiscard]] bool is_due(std::int64_t iteration) const noexcept { return iteration >= next_; }
  /// Collective, when due: each of `flags` becomes the largest of all ranks' on each.
  void exchange(std::vector<std::int64_t>& flags, std::int64_t iteration, Communicator& comm);

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::int64_t next_distance(std::int64_t iteration) const;

  std::int64_t next_ = 0;  // iterations
  std::int64_t last_ = 0;
  Clock::time_point last_at_ = {};
};

}  // namespace mn
