/// Names a rank that keeps the others waiting, with what differs there, while training goes on.
///
/// Each rank keeps the times of its own work: of a step, all but waiting for other ranks. When a window of kWindow
/// steps is over, ranks tell each other their medians' largest and smallest in the exchange that they make anyway
/// (periodic_agreement.hpp). Only if these differ as a slow rank's do, they exchange all medians, and read the counters
/// of rank_conditions.hpp. A rank that is slow in StragglerDetector::kWindows windows in a row gets one line.
///
/// (1) Every decision follows from numbers that are the same on all ranks, so all make the same calls.
/// (2) While no rank is slow, this costs two numbers in that exchange, and no counter is read.
/// (3) A median forgives single long steps, such as the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/trainer/rank_conditions.hpp>

namespace mn {

/// Judges windows of steps. Whether a rank is slow in a window is is_slow_rank()'s to say.
class StragglerDetector {
 public:
  static constexpr int kWindows = 2;        ///< windows in a row in which a straggler is slow
  static constexpr int kQuietWindows = 20;  ///< in a row in which it is not, until it may be named again

  /// A rank that keeps the others waiting.
  struct Straggler {
    std::size_t rank;  ///< its number
    double seconds;    ///< in the last window
    double median;     ///< the ranks' lower median in that window
  };

  /// `seconds` has one value for each rank: its time for a step of the window; empty: no rank was slow. Returns the
  /// ranks that are to be named now.
  [[nodiscard]] std::vector<Straggler> add(const std::vector<double>& seconds);
  /// Whether a rank was slow in the last window.
  [[nodiscard]] bool suspects() const noexcept { return suspects_; }

 private:
  struct Record {
    int slow = 0;   // windows in a row
    int quiet = 0;  // windows until it may be named again
  };
  std::vector<Record> ranks_;
  bool suspects_ = false;
};

class StragglerWatch {
 public:
  static constexpr std::size_t kWindow = 16;  ///< steps of a window at least
  static constexpr std::size_t kNumbers = 2;  ///< that append_to() appends

  StragglerWatch() = default;
  /// A run of so many ranks begins or goes on, after the same iteration on all of them.
  explicit StragglerWatch(int ranks) : ranks_(ranks) {}
  /// What this rank did in a step.
  void add(double data_s, double compute_s);
  /// For the exchange: of these numbers all ranks get the largest.
  void append_to(std::vector<std::int64_t>& flags) const;
  /// Collective, with these largest.
  void judge(std::span<const std::int64_t> largest, Communicator& comm);

 private:
  [[nodiscard]] bool is_complete() const noexcept { return own_s_.size() >= kWindow; }
  void report(const std::vector<StragglerDetector::Straggler>& slow, Communicator& comm) const;

  int ranks_ = 1;
  std::vector<double> own_s_, data_s_;  // of the window's steps
  StragglerDetector detector_;
  std::optional<RankConditions> before_;  // the first of the windows in which a rank was slow
};

}  // namespace mn
