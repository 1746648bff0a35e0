/// Finds the bucket size with the shortest step by trying candidates during the first steps.
///
/// Each candidate serves kSteps steps, of which the first is not timed because it still carries the change; then the
/// candidate with the least total time stays.
/// (1) Rank 0's times decide, so that all ranks choose the same.
/// (2) Every rank counts the same steps: sizes change at the same step everywhere.
/// Cost: a clock reading for each step, and one broadcast of a number for each candidate.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include <mn/comm/communicator.hpp>

namespace mn {

class BucketTuner {
 public:
  static constexpr int kSteps = 4;

  /// `candidates` are bytes; a single one needs no tuning.
  explicit BucketTuner(std::vector<std::size_t> candidates);
  [[nodiscard]] std::size_t bucket_bytes() const { return candidates_[current_]; }
  /// This step takes longer than the size is to blame for: the current candidate begins again. Collective, as step().
  void start_over();
  /// Collective, at the end of each step. The new size when it changes, else std::nullopt.
  std::optional<std::size_t> step(Communicator& comm);

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<std::size_t> candidates_;
  std::vector<double> seconds_;  // [candidates]
  std::size_t current_ = 0;
  int steps_ = 0;  // with the current candidate
  bool done_ = false;
  Clock::time_point since_ = Clock::now();
};

}  // namespace mn
