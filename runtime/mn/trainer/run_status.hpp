/// How far a run has come, for those who start it again: batch scripts and mnlaunch supervise.
///
/// Rank 0 writes the file that MN_STATUS_FILE names, lines of a word and a number:
///   began N        the iteration after which this start began
///   iteration N    iterations completed
///   saved N        the iteration of the newest checkpoint; `began` where this start has written none
///   up T           when this start had its trainer, in seconds since 1970
///   loaded T       when training began
///   stepped T      when this start's first iteration was complete; 0: not yet
#pragma once

#include <chrono>
#include <cstdint>

#include <mn/core/fd.hpp>

namespace mn {

class RunStatus {
 public:
  /// Opens the file if MN_STATUS_FILE is set, and `writes`. Warns if it can't be written, is a link, or not a plain
  /// file: training goes on without.
  explicit RunStatus(bool writes);

  void began(std::int64_t iteration);
  /// Writes for at most a hundredth of the time: each iteration, where files are local or cached and iterations take a
  /// millisecond, so that it shows where a run failed.
  void stepped(std::int64_t iteration);
  void saved(std::int64_t iteration);

 private:
  using Clock = std::chrono::steady_clock;
  void write();

  Fd file_;
  std::int64_t began_ = 0, iteration_ = 0, saved_ = 0;
  double up_at_ = 0, loaded_at_ = 0, stepped_at_ = 0;
  Clock::time_point written_ = {};
  Clock::duration cost_ = {};  // of a write
};

}  // namespace mn
