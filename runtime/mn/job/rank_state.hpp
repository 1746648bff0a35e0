/// What a rank is doing, as it tells the others in a survey.
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

/// A message that was sent arrives within so many seconds, and answers of two ranks are taken within so many.
inline constexpr double kMessageTime_s = 3;

/// The watch looks once a second: a process in which it has not for so long stood still.
inline constexpr auto kStandstill = std::chrono::seconds(3);

/// One rank's, or that of several which do the same.
struct RankState {
  std::vector<int> ranks = {};
  std::vector<std::string> hosts = {};
  std::string state = {};       ///< "training", "validation", …; empty: unknown
  std::int64_t iteration = 0;   ///< the last that is complete
  std::string left = {};        ///< how it has ended: "left main (status 0)"; empty: it has not
  std::string call = {};        ///< "allreduce (call 12, 1000 float32)"; empty: in none
  std::string operation = {};   ///< "allreduce"
  bool blocks = false;          ///< its main thread waits for the call's end
  bool enqueued = false;        ///< or works outside of calls, if the call on its device is over
  int leader = 0, ordinal = 0;  ///< the call's group, as GroupName has them
  std::uint64_t number = 0;     ///< the call's in its group; 0: a message
  int peer = -1;                ///< the other rank of a message, in MPI_COMM_WORLD; -1: any
  bool has_messages = false;    ///< of isend() or irecv() under way, for which it does not wait yet
  double seconds = 0;           ///< in this call, outside of calls without progress, or since it has left
  bool stuck = false;           ///< longer than it may
  bool stuck_outside = false;   ///< longer than it may outside of calls
  std::vector<std::array<std::int64_t, 3>> groups = {};  ///< leader, ordinal, and number of its last call
  std::string stack = {};                                ///< of its main thread, where it has waited long

  [[nodiscard]] bool waits() const noexcept { return !call.empty() && blocks; }
  [[nodiscard]] bool has_left() const noexcept { return !left.empty() && call.empty(); }
};

/// The texts of a survey. What is damaged in one is left out.
[[nodiscard]] std::string text_of(const std::vector<RankState>& states);
[[nodiscard]] std::vector<RankState> states_of(const std::string& text, int ranks);
/// One text for several ranks: those that do the same become one state, with the stack of the first.
[[nodiscard]] std::string merge_states(const std::vector<std::string>& texts, int ranks);

/// This process's, and since when. Any thread.
class OwnState {
 public:
  OwnState(Speaker speaker, const WatchedThread& main) : speaker_(std::move(speaker)), main_(main) {}

  /// The watch looks once a second for another call, or progress.
  void look();
  /// The process stood still for so long: that counts for nothing.
  void discount(std::chrono::duration<double> time);
  /// This rank has left main.
  void leave(const std::string& how);
  /// `with_stack`: where it has waited long.
  [[nodiscard]] RankState now(bool with_stack = false) const;

 private:
  using Clock = std::chrono::steady_clock;
  Speaker speaker_;
  WatchedThread main_;
  mutable std::mutex mutex_;
  std::uint64_t record_ = 0;                 // of the call under way
  std::uint64_t begun_ = 0;                  // calls so far
  Clock::time_point since_ = Clock::now();   // in this call, or without another one
  Clock::time_point looked_ = Clock::now();  // the watch
  std::string left_;
};

}  // namespace mn
