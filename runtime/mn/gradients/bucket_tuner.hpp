/// Finds the bucket size with the shortest step by trying candidates during the first steps.
///
/// Each candidate serves kSteps steps, of which the first is not timed because it still carries the change; then the
/// candidate with the least total time stays.
/// (1) Rank 0's times decide, so that all ranks choose the same.
/// (2) Every rank counts the same steps: sizes change at the same step everywhere.
/// (3) On a device the times are those of its work: the host waits for it once, when all candidates have been tried.
/// Cost: two clock readings for each candidate, or two events, and one broadcast of a number for each.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/moment.hpp>

namespace mn {

class BucketTuner {
 public:
  static constexpr int kSteps = 4;

  /// `candidates` are bytes; a single one needs no tuning. Steps run on `device`.
  explicit BucketTuner(std::vector<std::size_t> candidates, Device device = {});
  [[nodiscard]] std::size_t bucket_bytes() const { return candidates_[current_]; }
  [[nodiscard]] bool is_done() const noexcept { return done_; }
  /// This step takes longer than the size is to blame for: the current candidate begins again. Collective, as step().
  void start_over();
  /// Collective, at the end of each step. The new size when it changes, else std::nullopt.
  std::optional<std::size_t> step(Communicator& comm);

 private:
  struct Span {
    Moment begin;
    Moment end;
  };
  std::size_t fastest(Communicator& comm) const;

  std::vector<std::size_t> candidates_;
  Device device_;
  std::vector<Span> spans_;  // [candidates] from the end of the first step to that of the last
  std::size_t current_ = 0;
  int steps_ = 0;  // with the current candidate
  bool done_ = false;
};

}  // namespace mn
