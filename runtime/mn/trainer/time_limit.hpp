/// When a run must write its last checkpoint: before the scheduler ends the job.
///
/// Rank 0's counts; the trainer tells the others when it says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string_view>

namespace mn {

class TimeLimit {
 public:
  /// The job's end is MN_END_TIME, else SLURM_JOB_END_TIME (Slurm 23.02), both in seconds since 1970, else what squeue
  /// says of the job SLURM_JOB_ID, for which it has five seconds; else there is no limit. A variable whose time is over
  /// is ignored, with a line. Until a checkpoint has been measured it is taken to write 100 MB/s. Throws UsageError if
  /// the variable that counts is not a number.
  explicit TimeLimit(std::uint64_t checkpoint_bytes);

  /// A checkpoint took so long.
  void add_save(double seconds);
  /// Called as often as is_near() could be asked; the longest time between two calls may pass before the next. In the
  /// last minute before is_near() it asks squeue, beside training, whether the job's time has been extended.
  void tick();
  /// Whether the last checkpoint must begin now: twice the slowest one, the longest time between two ticks and ten
  /// seconds are left, or less.
  [[nodiscard]] bool is_near() const;
  /// Seconds until the end; no value if there is no limit.
  [[nodiscard]] std::optional<double> left_s() const;

 private:
  using Clock = std::chrono::steady_clock;

  void set_left(std::int64_t seconds, Clock::time_point now);
  void ask_squeue();
  void take_answer();
  [[nodiscard]] double needed_s() const;

  std::optional<Clock::time_point> end_;  // the wall clock may jump
  bool is_slurms_ = false;                // the end, which squeue may know better
  double save_s_;
  bool save_is_measured_ = false;
  double longest_tick_s_ = 0;
  std::optional<Clock::time_point> last_tick_;
  std::optional<Clock::time_point> asked_;
  std::future<std::optional<std::int64_t>> answer_;
};

/// What squeue prints as time left, "1-02:03:04", "03:04" or "4", in seconds; ten years for UNLIMITED, no value for
/// other words.
[[nodiscard]] std::optional<std::int64_t> parse_time_left(std::string_view text);

}  // namespace mn
