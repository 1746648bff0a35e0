/// What the answers of a survey mean: whether the job is over, by whom, and what to write.
///
/// Rank 0's monitor calls it with all answers; a rank whose survey came to no end, with its own.
///
/// The ranks wait for each other: one in a collective call for all members of the call's group that have made fewer
/// calls of it, one in a message for the other side.
///
/// Rules:
/// 1. A rank that waits in a call for a rank that has left main waits forever: the job is over, at once.
/// 2. A rank goes on by itself if it is in no call, has not answered, or waits in a call that all have joined (data
///    still travels); so does one whose call lacks only ranks that go on. The others wait for each other forever: where
///    one of them has waited for call_patience_s() (60 s), the job is over. Different calls of one number lack each
///    other. A message may still travel from or to a rank that has been in another call for less than kMessageTime_s,
///    or than work_patience_s() where one of its isend() or irecv() is under way: so long, who waits for it goes on. A
///    call whose ranks are unknown (the creation of a communicator over some ranks, one with ranks outside of
///    MPI_COMM_WORLD) goes on for work_patience_s().
/// 3. Who waits for ranks that go on by themselves is patient, however long they report progress. Such a rank is stuck,
///    and the job over, without progress for work_patience_s() (600 s); without a scope, of which nothing is known, for
///    unknown_patience_s() (1800 s) while others wait for it.
/// 4. A rank that has not answered is the suspect, not those that wait for it. The peer monitor judges it, by its own
///    time (MN_PEER_TIMEOUT); this watch only where a rank has waited longer than that and than work_patience_s(), and
///    all that have answered wait: one outside of calls, or under a debugger, is waited for. A rank that is cut off and
///    speaks for itself knows nothing of the others: it waits for unknown_patience_s().
/// 5. Otherwise the job goes on, with a line.
///
/// Cost: the square of the number of different states, which ranks that do the same share.
#pragma once

#include <functional>
#include <string>

namespace mn {

struct HangContext {
  int ranks = 1;                                 ///< of the job
  bool is_cut_off = false;                       ///< a rank speaks for itself, as no survey came to an end
  double peer_patience_s = 60;                   ///< silence that the peer monitor counts as a loss; infinite: none
  std::function<std::string(int)> host_of = {};  ///< of a rank that has not answered; may be empty
};

struct HangReport {
  std::string table;      ///< lines, the stuck ones first, then stacks; empty where the message says all
  std::string message;    ///< one line; empty: all is well
  bool is_over = false;   ///< and all ranks end
  bool has_left = false;  ///< because of a rank that has left main
};
/// `text`: of merge_states().
[[nodiscard]] HangReport hang_report(const std::string& text, const HangContext& job);

}  // namespace mn
