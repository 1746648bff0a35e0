/// About every 0.1 s, the ranks exchange facts that only some ranks know, such as a signal, or the time by rank 0's
/// clock.
///
/// An exchange in every iteration would cost too much, because it is a collective call. Instead, rank 0 measures how
/// long iterations take, and in each exchange tells all ranks after how many iterations the next exchange comes.
/// (1) All ranks know the iteration of the next exchange, so all ranks call exchange() in the same iteration.
/// (2) The number of iterations between two exchanges at most doubles each time, because iterations may become slower.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <mn/comm/communicator.hpp>

namespace mn {

class PeriodicAgreement {
 public:
  /// Call it at the beginning of a run. The first exchange is due at once.
  void begin(std::int64_t iteration);
  [[nodiscard]] bool is_due(std::int64_t iteration) const noexcept { return iteration >= next_; }
  /// Collective, called when an exchange is due. Sets each flag to its maximum over the ranks.
  void exchange(std::vector<std::int64_t>& flags, std::int64_t iteration, Communicator& comm);

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::int64_t next_distance(std::int64_t iteration) const;

  std::int64_t next_ = 0;  // iteration of the next exchange
  std::int64_t last_ = 0;
  Clock::time_point last_at_ = {};
};

}  // namespace mn
