/// Counts the collective calls that the calling process makes in each group of ranks. CallCheck counts each call. If a
/// job hangs, mn::Job's survey (job/hang_report.hpp) compares the counts and so finds the rank without the call.
///
/// Invariants:
/// 1. All ranks give a group the same name and its calls the same numbers (flight_recorder.hpp). Therefore a rank whose
///    count is below a call's number has not made this call.
/// 2. The count of a destroyed group stays for a while, because a rank that leaves main early destroys communicators on
///    which the remaining ranks still wait in calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <mn/comm/calls/flight_recorder.hpp>

namespace mn {

struct GroupCalls {
  int leader = 0;
  int ordinal = 0;  ///< number of the group (GroupName); 0: creations of communicators over all ranks
  std::uint64_t number = 0;
};

/// Counts the calls in one group. group_calls() leaves out groups of one rank, and groups without a leader.
class GroupCount {
 public:
  explicit GroupCount(const GroupName& group);
  void set(std::uint64_t number) noexcept { number_->store(number, std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> number_;
};

/// Counts the creation of a communicator over all ranks of the job. Returns its number: 1 for the first such creation.
[[nodiscard]] std::uint64_t count_creation() noexcept;

/// Returns the counts of all groups. The first entry is the count of creations. Any thread may call group_calls().
[[nodiscard]] std::vector<GroupCalls> group_calls();

}  // namespace mn
