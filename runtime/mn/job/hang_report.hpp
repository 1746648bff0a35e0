/// Judges the answers of a survey, in which every rank tells its state: decides whether the job is over, which ranks
/// are at fault, and what to write. Rank 0's monitor passes the answers of all ranks; a rank whose survey did not
/// complete passes its own answer alone.
///
/// A rank in a collective call waits for the group's ranks that have made fewer calls of the group. A rank in a send or
/// a receive waits for the rank at the other end of the message.
///
/// Rules:
/// 1. A rank that waits in a call for a rank that has left main waits forever, so the job is over at once.
/// 2. A rank "goes on" if it may still make progress: it is in no call, has not answered, or waits in a call that all
///    members have joined (data still travels). If a call lacks only ranks that go on, the ranks waiting in the call go
///    on, too. All other ranks wait for each other forever, and the job is over once one of them has waited for
///    call_patience_s() (60 s). Ranks in different calls with the same number lack each other. A rank waiting for a
///    message goes on while the message may still travel: until its peer has been in a different call for
///    kMessageTime_s or, if the peer has an isend() or irecv() under way, for work_patience_s(). A call whose members
///    are unknown (creating a communicator over some ranks, or with ranks outside of MPI_COMM_WORLD) goes on for
///    work_patience_s().
/// 3. A rank waiting for ranks that go on is not stuck, as long as the awaited ranks report progress. A rank without
///    progress for work_patience_s() (600 s) is stuck, and the job is over. For an awaited rank outside of any
///    ActivityScope the limit is unknown_patience_s() (1800 s).
/// 4. A rank without an answer is the suspect, not the ranks waiting for its calls. The peer monitor judges the
///    suspect, by its own time-out (MN_PEER_TIMEOUT). The watch ends the job only if a rank has waited longer than the
///    time-out and work_patience_s(), and all answering ranks wait in calls. A rank cut off from the tree judges by its
///    own answer alone, and waits for unknown_patience_s().
/// 5. Otherwise the job continues, and one line reports the wait.
///
/// Cost: the square of the number of different states; ranks in equal states share a row.
#pragma once

#include <functional>
#include <string>

namespace mn {

struct HangContext {
  int ranks = 1;                ///< number of ranks of the job
  bool is_cut_off = false;      ///< the survey did not complete; the answer is one rank's own
  double peer_patience_s = 60;  ///< silence that the peer monitor counts as a loss; infinite without a monitor
  std::function<std::string(int)> host_of = {};  ///< host of a rank without an answer; may be empty
};

struct HangReport {
  std::string table;      ///< lines, stuck ranks first, then stacks; empty if the message says all
  std::string message;    ///< one line; empty if all is well
  bool is_over = false;   ///< the job is over, and all ranks end
  bool has_left = false;  ///< the job is over because a rank has left main
};
/// Judges `text`, which merge_states() has made of the answers.
[[nodiscard]] HangReport hang_report(const std::string& text, const HangContext& job);

}  // namespace mn
