/// Writes to a file how far a run has come. Batch scripts and `mnlaunch supervise` read the file when they restart a
/// run.
///
/// Rank 0 writes the file named by MN_STATUS_FILE. Each line has a word and a number:
///   began N        number of iterations that were complete when this start began
///   iteration N    number of iterations that are complete
///   saved N        iteration of the newest checkpoint; equal to `began` before the first save
///   up T           when the trainer was constructed, in seconds since 1970
///   loaded T       when training began, in seconds since 1970
///   stepped T      when the first iteration of this start was complete, in seconds since 1970; before that, 0
#pragma once

#include <chrono>
#include <cstdint>

#include <mn/core/fd.hpp>

namespace mn {

class RunStatus {
 public:
  /// Opens the file if `writes` is true and MN_STATUS_FILE is set. If the file cannot be written, is a link, or is no
  /// regular file, logs a warning, and training goes on without the file.
  explicit RunStatus(bool writes);

  void began(std::int64_t iteration);
  /// The writes take at most a hundredth of the time. On local or cached storage this suffices for every iteration of a
  /// millisecond, so the file shows in which iteration a run failed.
  void stepped(std::int64_t iteration);
  void saved(std::int64_t iteration);

 private:
  using Clock = std::chrono::steady_clock;
  void write();

  Fd file_;
  std::int64_t began_ = 0, iteration_ = 0, saved_ = 0;
  double up_at_ = 0, loaded_at_ = 0, stepped_at_ = 0;
  Clock::time_point written_ = {};
  Clock::duration cost_ = {};  // time that a write takes
};

}  // namespace mn
