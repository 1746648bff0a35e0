/// How many collective calls this process has made of each group: so that ranks can find out which of them lacks a call
/// in which others wait.
///
/// CallCheck counts in a GroupCount of its group; mn::Job's survey reads all (job/hang_report.hpp).
///
/// Invariants:
/// 1. Ranks name a group alike, and count its calls alike (flight_recorder.hpp). A rank whose count is below a call's
///    number has not made that call.
/// 2. The count of a group that has ended stays for a while: a rank that leaves main early destroys its communicators
///    while others wait in them.
///
/// Cost: a relaxed store for a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <mn/comm/calls/flight_recorder.hpp>

namespace mn {

struct GroupCalls {
  int leader = 0;
  int ordinal = 0;           ///< 0: the creations of communicators over all ranks
  std::uint64_t number = 0;  ///< of this process's last call
};

/// A group's count; one of a single rank is not kept, nor of a group that has no leader.
class GroupCount {
 public:
  explicit GroupCount(const GroupName& group);
  void set(std::uint64_t number) noexcept { number_->store(number, std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> number_;
};

/// Counts one more creation of a communicator over all ranks, and returns its number.
[[nodiscard]] std::uint64_t count_creation() noexcept;

/// Of all groups, that of creations first. Any thread.
[[nodiscard]] std::vector<GroupCalls> group_calls();

}  // namespace mn
