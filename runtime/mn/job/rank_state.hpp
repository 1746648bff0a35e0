/// The state of a rank, as the rank reports it in a survey.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <mn/job/failure.hpp>
#include <mn/job/thread_stack.hpp>

namespace mn {

/// The longest time, in seconds, that a message may travel. Two ranks' answers to a survey are at most this far apart.
inline constexpr double kMessageTime_s = 3;

/// If the progress watch, which looks once a second, has not looked for this time, the process has stood still.
inline constexpr auto kStandstill = std::chrono::seconds(3);

/// The largest number of stacks in a survey's answer, and in a report.
inline constexpr std::size_t kMaxStacks = 8;

/// The state of a rank, or of several ranks in equal states.
struct RankState {
  std::vector<int> ranks = {};
  std::vector<std::string> hosts = {};
  std::string state = {};       ///< "training", "validation", …; empty: unknown
  std::int64_t iteration = 0;   ///< last complete iteration
  std::string left = {};        ///< how the rank has ended, for example "left main (status 0)"; empty: still running
  std::string call = {};        ///< "allreduce (call 12, 1000 float32)"; empty: in no call
  std::string operation = {};   ///< "allreduce"
  bool blocks = false;          ///< the main thread waits for the call's end
  bool enqueued = false;        ///< the call works on a device; once it is over, the rank is outside of calls
  int leader = 0, ordinal = 0;  ///< the call's group (GroupName)
  std::uint64_t number = 0;     ///< the call's number in its group; 0: a message
  int peer = -1;                ///< the other rank of a message, in MPI_COMM_WORLD; -1: any rank
  bool has_messages = false;    ///< an isend() or irecv() is under way, and its wait() was not called yet
  double seconds = 0;           ///< time in the call; or without progress outside of calls; or since the rank left main
  bool stuck = false;           ///< `seconds` is more than allowed
  bool stuck_outside = false;   ///< `seconds` is more than allowed outside of calls
  std::vector<std::array<std::int64_t, 3>> groups = {};  ///< each group's leader, ordinal and last call number
  std::string stack = {};                                ///< of the main thread, after a long wait

  [[nodiscard]] bool waits() const noexcept { return !call.empty() && blocks; }
  [[nodiscard]] bool has_left() const noexcept { return !left.empty() && call.empty(); }
};

/// text_of() writes the states as the text of a survey's answer. states_of() reads the text, and skips damaged states.
[[nodiscard]] std::string text_of(const std::vector<RankState>& states);
[[nodiscard]] std::vector<RankState> states_of(const std::string& text, int ranks);
/// Merges the texts of several ranks. Ranks in equal states become a single state, with the first rank's stack.
[[nodiscard]] std::string merge_states(const std::vector<std::string>& texts, int ranks);

/// Tells the state of this process, and how long the state has lasted. Any thread may call the functions.
class OwnState {
 public:
  OwnState(Speaker speaker, const WatchedThread& main) : speaker_(std::move(speaker)), main_(main) {}

  /// Notes a new call or other progress. The progress watch calls look() once a second.
  void look();
  /// Subtracts `time`, in which the process stood still, from the wait.
  void discount(std::chrono::duration<double> time);
  /// Records that this rank has left main; `how` describes its end.
  void leave(const std::string& how);
  /// The present state. If `with_stack` is true and the wait is long, the state has the main thread's stack.
  [[nodiscard]] RankState now(bool with_stack = false) const;

 private:
  using Clock = std::chrono::steady_clock;
  Speaker speaker_;
  WatchedThread main_;
  mutable std::mutex mutex_;
  std::uint64_t record_ = 0;                // number of the record of the call under way; 0: none
  std::uint64_t begun_ = 0;                 // number of calls begun so far
  Clock::time_point since_ = Clock::now();  // start of the present call, or of the time without a new call
  Clock::time_point looked_ = Clock::now();
  std::string left_;
};

}  // namespace mn
