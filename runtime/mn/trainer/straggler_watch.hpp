/// Finds stragglers while training goes on, and logs possible reasons why they are slow. A straggler is a rank that
/// keeps all other ranks waiting.
///
/// In each step, each rank measures how long its own work takes, that is, the time of the step without waits for other
/// ranks. After a window of at least kWindow steps, each rank takes the median of its times, and the periodic exchange
/// (periodic_agreement.hpp) finds the largest and the smallest median. If the largest median is much larger than the
/// smallest, the ranks exchange all medians, and read the counters of rank_conditions.hpp. If a rank is slow in
/// StragglerDetector::kWindows windows in a row, a line in the log names it.
///
/// (1) Every decision follows from numbers that are equal on all ranks; therefore all ranks make the same calls.
/// (2) While no rank is slow, the cost is two numbers in the periodic exchange; no counter is read.
/// (3) A few long steps in a window, such as the first step of a run, do not change the median.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/trainer/rank_conditions.hpp>

namespace mn {

/// Finds stragglers from the ranks' times in each window. is_slow_rank() decides which ranks are slow in one window.
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

  /// Adds a window. `seconds` has, for each rank, its time for a step in the window; it is empty if no rank was slow.
  /// Returns the stragglers that the log should name now.
  [[nodiscard]] std::vector<Straggler> add(const std::vector<double>& seconds);
  /// True if some rank was slow in the last window.
  [[nodiscard]] bool suspects() const noexcept { return suspects_; }

 private:
  struct Record {
    int slow = 0;   // number of slow windows in a row
    int quiet = 0;  // number of windows until the rank may be named again
  };
  std::vector<Record> ranks_;
  bool suspects_ = false;
};

class StragglerWatch {
 public:
  static constexpr std::size_t kWindow = 16;  ///< minimum of steps in a window
  static constexpr std::size_t kNumbers = 2;  ///< how many numbers append_to() appends

  StragglerWatch() = default;
  /// Construct it at the beginning of a run, after the same iteration on all ranks.
  explicit StragglerWatch(int ranks) : ranks_(ranks) {}
  /// Adds this rank's times for one step: the wait for data, and computing.
  void add(double data_s, double compute_s);
  /// Appends this rank's times to the flags of the periodic exchange, which takes maxima over the ranks.
  void append_to(std::vector<std::int64_t>& flags) const;
  /// Collective: decides whether a rank is slow. `largest` has the maxima of the numbers from append_to().
  void judge(std::span<const std::int64_t> largest, Communicator& comm);

 private:
  [[nodiscard]] bool is_complete() const noexcept { return own_s_.size() >= kWindow; }
  void report(const std::vector<StragglerDetector::Straggler>& slow, Communicator& comm) const;

  int ranks_ = 1;
  std::vector<double> own_s_, data_s_;  // for each step in the window
  StragglerDetector detector_;
  std::optional<RankConditions> before_;  // counters at the end of the first slow window
};

}  // namespace mn
