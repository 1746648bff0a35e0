/// Writes how far a run has come to a file, for batch scripts and `mnlaunch supervise`, which restart the run.
///
/// Rank 0 writes the file named by MN_STATUS_FILE. Each line has a word and a number:
///   began N        iterations completed when this start began
///   iteration N    iterations completed
///   saved N        iteration of the newest checkpoint; equal to `began` before the first save
///   up T           when the trainer was constructed, in seconds since 1970
///   loaded T       when training began
///   stepped T      when the first iteration of this start was complete; 0 before
#pragma once

#include <chrono>
#include <cstdint>

#include <mn/core/fd.hpp>

namespace mn {

class RunStatus {
 public:
  /// Opens the file if `writes` is true and MN_STATUS_FILE is set. A file that can't be written, a link, or no regular
  /// file is a warning; training then goes on without the file.
  explicit RunStatus(bool writes);

  void began(std::int64_t iteration);
  /// Called after each iteration. Writing takes at most a hundredth of the time. On local or cached storage even
  /// iterations of a millisecond are all written: the file shows where a run failed.
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
