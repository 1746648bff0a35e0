/// Finds the bucket size with the shortest step by trying a few during the first steps.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Each candidate serves kSteps steps, of which the first is not counted; then the fastest stays. Rank 0's times
/// decide.
class BucketTuner {
 public:
  static constexpr int kSteps = 4;

  explicit BucketTuner(std::vector<std::size_t> candidates);
  [[nodiscard]] std::size_t bucket_bytes() const { return candidates_[current_]; }
  /// Collective, at the end of each step. The new size when it changes.
  std::optional<std::size_t> step(Communicator& comm);
  [[nodiscard]] bool done() const noexcept { return done_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<std::size_t> candidates_;
  std::vector<double> seconds_;
  std::size_t current_ = 0;
  int steps_ = 0;
  bool done_ = false;
  Clock::time_point since_ = Clock::now();
};

}  // namespace mn
