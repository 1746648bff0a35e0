/// Finds stragglers while training goes on, and logs possible reasons. A straggler is a rank that keeps all other ranks
/// waiting.
///
/// Each rank measures its own work in each step: how long the step takes, without waits for other ranks. After a window
/// of at least kWindow steps, each rank takes the median of its times, and the periodic exchange
/// (periodic_agreement.hpp) finds the largest and the smallest median. If the largest median is much larger than the
/// smallest, the ranks exchange all medians, and read the counters of rank_conditions.hpp. A rank that is slow in
/// StragglerDetector::kWindows windows in a row gets one line in the log.
///
/// (1) Every decision follows from numbers that are equal on all ranks; therefore all ranks make the same calls.
/// (2) While no rank is slow, the cost is two numbers in the periodic exchange; no counter is read.
/// (3) The median ignores single long steps, such as the first step of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/trainer/rank_conditions.hpp>

namespace mn {

/// Finds stragglers from the ranks' times in each window. is_slow_rank() decides who is slow in one window.
class StragglerDetector {
 public:
  static constexpr int kWindows = 2;        ///< slow windows in a row that make a straggler
  static constexpr int kQuietWindows = 20;  ///< fast windows in a row, after which a straggler may be named again

  /// A slow rank, which keeps all other ranks waiting.
  struct Straggler {
    std::size_t rank;
    double seconds;  ///< the straggler's time for a step in the last window
    double median;   ///< the ranks' lower median in the last window
  };

  /// Adds a window; `seconds` has each rank's time for a step, or is empty if no rank was slow. Returns the stragglers
  /// to name.
  [[nodiscard]] std::vector<Straggler> add(const std::vector<double>& seconds);
  /// True if a rank was slow in the last window.
  [[nodiscard]] bool suspects() const noexcept { return suspects_; }

 private:
  struct Record {
    int slow = 0;   // slow windows in a row
    int quiet = 0;  // number of windows until the rank may be named again
  };
  std::vector<Record> ranks_;
  bool suspects_ = false;
};

class StragglerWatch {
 public:
  static constexpr std::size_t kWindow = 16;  ///< minimum of steps in a window
  static constexpr std::size_t kNumbers = 2;  ///< numbers that append_to() appends

  StragglerWatch() = default;
  /// Construct the object at the beginning of a run with `ranks` ranks, after the same iteration on all ranks.
  explicit StragglerWatch(int ranks) : ranks_(ranks) {}
  /// Adds the times of one step of this rank.
  void add(double data_s, double compute_s);
  /// Appends this rank's times to the flags of the periodic exchange, which takes each number's maximum over ranks.
  void append_to(std::vector<std::int64_t>& flags) const;
  /// Collective, called with the maxima of the numbers from append_to(): decides whether a rank is slow.
  void judge(std::span<const std::int64_t> largest, Communicator& comm);

 private:
  [[nodiscard]] bool is_complete() const noexcept { return own_s_.size() >= kWindow; }
  void report(const std::vector<StragglerDetector::Straggler>& slow, Communicator& comm) const;

  int ranks_ = 1;
  std::vector<double> own_s_, data_s_;  // of each step in the window
  StragglerDetector detector_;
  std::optional<RankConditions> before_;  // counters at the end of the first slow window
};

}  // namespace mn
