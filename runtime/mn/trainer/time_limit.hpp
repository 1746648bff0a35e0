/// Knows the time limit of the job, and decides when a run must write its last checkpoint.
///
/// Rank 0 has a TimeLimit; its trainer tells the other ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string_view>

namespace mn {

class TimeLimit {
 public:
  /// Finds out when the job ends: the time is in MN_END_TIME or SLURM_JOB_END_TIME (Slurm 23.02), in seconds since
  /// 1970, or squeue tells it for the job SLURM_JOB_ID within five seconds. If none of these gives a time, there is no
  /// limit. A variable whose time has already passed is ignored, with a warning. Until a save has been measured, a save
  /// is assumed to write 100 MB/s. Throws UsageError if a variable is not a number.
  explicit TimeLimit(std::uint64_t checkpoint_bytes);

  /// Tells the TimeLimit how long a save has taken.
  void add_save(double seconds);
  /// Call it in each iteration. It measures the longest time between two calls, and is_near() leaves this much time,
  /// because the next call may come so late. In the last minute before is_near() becomes true, a thread asks squeue
  /// whether the job was extended.
  void tick();
  /// How long before the limit the last checkpoint must begin: 2 × slowest save + longest time between ticks + 10 s.
  [[nodiscard]] double needed_s() const;
  /// True if the last checkpoint must begin now.
  [[nodiscard]] bool is_near() const { return end_ && *left_s() <= needed_s(); }
  /// Returns how many seconds are left; no value if there is no limit.
  [[nodiscard]] std::optional<double> left_s() const;

 private:
  using Clock = std::chrono::steady_clock;

  void set_left(std::int64_t seconds, Clock::time_point now);
  void ask_squeue();
  void take_answer();

  std::optional<Clock::time_point> end_;  // on the steady clock, because the wall clock may jump
  bool is_slurms_ = false;                // the end comes from Slurm: squeue knows if it was extended
  double save_s_;
  bool save_is_measured_ = false;
  double longest_tick_s_ = 0;
  std::optional<Clock::time_point> last_tick_;
  std::optional<Clock::time_point> asked_;
  std::future<std::optional<std::int64_t>> answer_;
};

/// Converts squeue's time left, "1-02:03:04", "03:04" or "4", to seconds: ten years for UNLIMITED; no value for others.
[[nodiscard]] std::optional<std::int64_t> parse_time_left(std::string_view text);

}  // namespace mn
