/// Knows the time limit of the job, and decides when a run must write its last checkpoint.
///
/// Only rank 0 has a TimeLimit. Rank 0's trainer tells all other ranks when the time has come.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string_view>

namespace mn {

class TimeLimit {
 public:
  /// Finds out when the job ends. The end is in MN_END_TIME or SLURM_JOB_END_TIME (Slurm 23.02), in seconds since 1970.
  /// If neither is set, squeue is asked about the job SLURM_JOB_ID, for at most five seconds. If squeue tells no time
  /// either, there is no limit. If a variable's time has already passed, the variable is ignored, with a warning. Until
  /// a save has been measured, a save is assumed to write 100 MB/s. Throws UsageError if a variable is not a number.
  explicit TimeLimit(std::uint64_t checkpoint_bytes);

  /// Tells this object that a save has taken `seconds` seconds.
  void add_save(double seconds);
  /// Call tick() in each iteration. The longest time between two ticks is a part of needed_s(), because a decision may
  /// come late by this time. In the last minute before is_near(), a thread asks squeue whether the job was extended.
  void tick();
  /// Returns how many seconds before the limit the last checkpoint must begin: 2 × the slowest save + the longest time
  /// between two ticks + 10 s.
  [[nodiscard]] double needed_s() const;
  /// True if the last checkpoint must begin now.
  [[nodiscard]] bool is_near() const { return end_ && *left_s() <= needed_s(); }
  /// Returns how many seconds are left until the limit. No value if there is no limit.
  [[nodiscard]] std::optional<double> left_s() const;

 private:
  using Clock = std::chrono::steady_clock;

  void set_left(std::int64_t seconds, Clock::time_point now);
  void ask_squeue();
  void take_answer();

  std::optional<Clock::time_point> end_;  // end of the job, on the steady clock, because the wall clock may jump
  bool is_slurms_ = false;                // the end comes from Slurm, so squeue knows if the job was extended
  double save_s_;
  bool save_is_measured_ = false;
  double longest_tick_s_ = 0;
  std::optional<Clock::time_point> last_tick_;
  std::optional<Clock::time_point> asked_;
  std::future<std::optional<std::int64_t>> answer_;
};

/// Converts squeue's "1-02:03:04", "03:04" or "4" to seconds, and UNLIMITED to ten years. No value for other texts.
[[nodiscard]] std::optional<std::int64_t> parse_time_left(std::string_view text);

}  // namespace mn
