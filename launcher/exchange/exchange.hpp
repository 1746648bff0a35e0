/// The exchange of facts between the mnlaunch processes of a job (one for each rank) before any program starts.
///
/// A round goes up and down the tree of all ranks once:
///
///   each rank           gives its part to the leader of its node
///   each leader         combines the parts of its node into a report, and sends the report to the root
///   the root            decides on an answer, from the reports of all nodes
///   each leader         gives each rank of its node the rank's share of the answer
///
/// 1. All ranks make the same rounds.
/// 2. If a rank is late, dies or sends garbage, its part is absent. If a node's leader is at fault, the node's report
///    is absent. The root decides without absent parts, and the answer reaches all connected ranks.
/// 3. A rank that is cut off from the root tells the ranks below. If the leader above is gone, the root has noticed and
///    prints the reason, so the rank prints nothing. If the root itself is gone, one rank of the root's node and one
///    rank of each neighbor node print the reason.
/// 4. A leader between a node and the root passes the node's report on at once and unchanged.
/// 5. A rank is uninvited if it has no number, or the number of another rank. The uninvited rank's part follows the
///    parts of the node's ranks. Once an uninvited rank has come, the leader waits less long for missing ranks, because
///    the error in the uninvited rank's part explains why a rank is missing.
///
/// Cost: with n nodes, 2 log16 n messages in sequence for each round. The root receives n reports over at most 16
/// connections, and a part from each rank of its own node.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>

#include "exchange/group.hpp"
#include "exchange/links.hpp"

namespace mn::launcher {

/// What the user should do if two jobs have the same name.
inline constexpr const char* kNameJobs =
    "give jobs beside each other names of their own (export another MN_LAUNCH_KEY before each)";

/// What the user should do if ranks did not arrive.
inline constexpr const char* kFindLateRanks =
    "look for a message of its own, or a hung node or file system there, and start mnlaunch on every rank, with one "
    "MN_LAUNCH_KEY if any";

/// This rank is cut off from the root. The text is empty if a different rank prints the reason.
class CutOff : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return kExitCheckFailed; }
};

/// What a rank or a node contributes to a round.
struct Part {
  enum class Absence {
    kLate,    ///< the rank or node did not come in time
    kEnded,   ///< the rank or node came, and ended or sent garbage
    kWeak,    ///< the node came, but proved only the weak key (munge.hpp)
    kCutOff,  ///< a node between this node and the root has ended
  };
  std::optional<std::string> bytes;
  Absence absence = Absence::kLate;  ///< why `bytes` has no value
  std::string why_weak{};            ///< for kWeak: the reason, from the node above
};
using Parts = std::vector<Part>;

class Exchange {
 public:
  struct Steps {
    /// On leaders: makes the node's report from the parts of its ranks, sorted by intra_rank, and then of uninvited
    /// ranks (invariant 5). May take long.
    std::function<std::string(Parts)> combine;
    /// On the root: makes the answer from the nodes' reports, sorted by node number.
    std::function<std::string(Parts)> decide;
    /// On leaders: returns the share of the answer for one rank of the node.
    std::function<std::string(const std::string& answer, int intra_rank)> split;
  };

  /// Begins to listen for the ranks below, and to connect to the rank above. Throws CommError.
  explicit Exchange(Group group);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Collective over all ranks of the group: makes a round, and returns this rank's share of the answer. Blocks little
  /// longer than the group's patience and the steps. Throws CutOff, and errors of this rank's own steps.
  [[nodiscard]] std::string round(std::string part, const Steps& steps) {
    return round(std::move(part), steps, group_.patience);
  }

  /// Collective: waits at most a few seconds for all living ranks, so that all leave together.
  void leave();

  [[nodiscard]] const Group& group() const noexcept { return group_; }
  /// On leaders: the leader's TCP port; 0 if it does not listen.
  [[nodiscard]] std::uint16_t port() const noexcept { return links_.port(); }
  /// Returns duplicates of this rank's connections, which close on exec. Call this after the last round.
  [[nodiscard]] std::vector<std::pair<Peer, Fd>> duplicate_connections() const {
    return links_.duplicate_connections();
  }
  /// On leaders: why the node's ranks cannot connect to the leader; empty if they can.
  [[nodiscard]] const std::string& failure_to_listen() const noexcept { return links_.local_listener().failure; }
  /// On leaders: why calls to the parent node failed; empty if none failed.
  [[nodiscard]] const std::string& failure_of_calls() const { return links_.failure_of_calls(); }

 private:
  using Milliseconds = std::chrono::milliseconds;
  using Queue = std::deque<std::string>;

  /// The messages from a rank or node, and whether more can come.
  struct Inbox {
    Queue messages;
    std::optional<Part::Absence> end;  ///< set: no more messages will come
    std::string why_weak;
    bool is_given_up = false;  ///< once absent: no longer awaited
    [[nodiscard]] bool is_settled() const { return !messages.empty() || end || is_given_up; }
    [[nodiscard]] Part take();
  };

  /// `listener` is the result of listen_for_ranks(group), and may change the group, so the group is copied afterwards.
  Exchange(NodeListener listener, const Group& group);
  [[nodiscard]] std::string round(std::string part, const Steps& steps, Milliseconds patience);
  [[nodiscard]] Parts collect_members(std::string own, Deadline deadline);
  [[nodiscard]] Parts collect_nodes(std::string own, Deadline deadline, Milliseconds for_stragglers);
  [[nodiscard]] std::string await_answer(Milliseconds patience);
  /// Whether the rank above is a leader other than the root. If so, the root notices and reports the absence.
  [[nodiscard]] bool root_misses_upper() const;
  /// Tells the ranks below about the cut, and throws CutOff. The text is empty if another rank prints the reason.
  [[noreturn]] void give_up(const std::string& why, bool root_knows);
  void await_weak_callers();
  [[noreturn]] void give_up_waiting(Milliseconds patience);
  [[nodiscard]] std::string upper_name() const;

  void take(const Peer& from, std::string message);
  void take_from_above(char kind, int origin, std::string body);
  /// Adds empty inboxes if there are not enough.
  Inbox& member(int id);
  void lose(const Peer& peer, bool is_weak);
  /// On the root. `why_weak`: why the node proved only the weak key; empty if the node has ended.
  void lose_node(int node, const std::string& why_weak);
  void send(const Peer& to, char kind, int origin, std::string_view body);
  void send_to_children(char kind, int origin, std::string_view body);

  const Group group_;
  Links links_;
  std::vector<Inbox> members_;  ///< on leaders, by intra_rank; then uninvited ranks (5)
  std::vector<Inbox> nodes_;    ///< on the root, by node
  Queue answers_;
  int round_ = 0;
  int hurried_round_ = 0;
  bool is_up_lost_ = false;
  bool is_abandoned_ = false;
};

}  // namespace mn::launcher
