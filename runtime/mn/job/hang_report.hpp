/// Judges the answers of a survey, in which every rank tells its state. Decides whether the job is over, which ranks
/// are at fault, and what to write. Rank 0's monitor passes the answers of all ranks. A rank whose survey did not
/// complete passes only its own answer.
///
/// A rank in a collective call waits for the group's ranks that have made fewer calls of the group. A rank in a send or
/// a receive waits for the rank at the other end of the message.
///
/// Rules:
/// 1. If a rank waits in a call for a rank that has left main, the wait never ends, and the job is over at once.
/// 2. A rank "goes on" if it may still make progress, because it is in no call, has not answered, or waits in a call
///    that all members of the group have joined (data still travels). If all ranks that have not joined a call go on,
///    the ranks that wait in the call go on, too. All remaining ranks wait for each other forever, and the job is over
///    once a rank among them has waited for call_patience_s() (60 s). Two ranks in different calls with equal numbers
///    wait for each other. A rank that waits for a message goes on as long as the message may still travel. The message
///    may travel until the peer has been in a different call for kMessageTime_s or, if the peer has an isend() or
///    irecv() under way, for work_patience_s(). A rank in a call whose members are unknown goes on for
///    work_patience_s(). (Such a call creates a communicator over some ranks, or has ranks outside of MPI_COMM_WORLD.)
/// 3. A rank that waits for ranks that go on is not stuck, as long as the awaited ranks report progress. A rank that
///    has made no progress for work_patience_s() (600 s) is stuck, and the job is over. If an awaited rank is outside
///    of any ActivityScope, its limit is unknown_patience_s() (1800 s).
/// 4. If a rank has not answered, the suspect is this rank, and not the ranks that wait for calls of the suspect. The
///    peer monitor judges the suspect by the monitor's own time-out (MN_PEER_TIMEOUT). The watch ends the job only if
///    all answering ranks wait in calls, and a rank has waited longer than both MN_PEER_TIMEOUT and work_patience_s().
///    A rank that is cut off from the monitor's tree judges by its own answer alone, and waits for
///    unknown_patience_s().
/// 5. Otherwise the job continues, and one line reports the wait.
///
/// Cost: time in proportion to the square of the number of different states, because ranks in equal states are merged.
#pragma once

#include <functional>
#include <string>

namespace mn {

struct HangContext {
  int ranks = 1;                ///< number of ranks of the job
  bool is_cut_off = false;      ///< true: the survey did not complete, and the only answer is this rank's own
  double peer_patience_s = 60;  ///< silence that the monitor counts as a loss; infinite without a monitor
  std::function<std::string(int)> host_of = {};  ///< host of a rank that has not answered; may be empty
};

struct HangReport {
  std::string table;      ///< lines about ranks (stuck ranks first), then stacks; empty if the message says all
  std::string message;    ///< one line for the user; empty if all is well
  bool is_over = false;   ///< the job is over, and all ranks end
  bool has_left = false;  ///< the job is over because a rank has left main
};
/// Judges `text`, which merge_states() has made of the answers.
[[nodiscard]] HangReport hang_report(const std::string& text, const HangContext& job);

}  // namespace mn
