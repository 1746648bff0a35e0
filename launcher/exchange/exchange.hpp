/// How the mnlaunch processes of a job, one for each rank, exchange facts and agree on an answer before any program
/// starts.
///
/// A round goes up and down the tree of all ranks once:
///
///   each rank           gives its part to the leader of its node
///   each leader         combines the parts of its node to a report, which goes to the root
///   the root            decides on an answer, from the reports of all nodes
///   each leader         gives each rank of its node its share of the answer
///
/// 1. All ranks make the same rounds.
/// 2. If a rank is late, dies or sends garbage, its part is absent. If a node's leader has such a fault, the node's
///    report is absent. The root decides without them, and the answer reaches all connected ranks.
/// 3. A rank cut off from the root tells the ranks below. If the root has lost the leader above the rank, too, the root
///    prints the reason and the rank prints nothing. If the root is gone, one rank of the root's node and one rank of
///    each neighbor node print the reason.
/// 4. Leaders between a node and the root pass the node's report on unchanged, and no report waits for another report.
/// 5. An uninvited rank has no number, or the number of another rank. Its part follows the parts of the node's ranks
///    and shortens the wait for missing ranks, because the error in the part explains why a rank is missing.
///
/// Cost: with n nodes, 2 log16 n messages in sequence for each round. The root receives n reports over at most 16
/// connections, and a part from each rank of its node.
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

/// Remedy for jobs that share a name.
inline constexpr const char* kNameJobs =
    "give jobs beside each other names of their own (export another MN_LAUNCH_KEY before each)";

/// Remedy for ranks that did not arrive.
inline constexpr const char* kFindLateRanks =
    "look for a message of its own, or a hung node or file system there, and start mnlaunch on every rank, with one "
    "MN_LAUNCH_KEY if any";

/// The error of a rank that is cut off from the root. An empty text means that a different rank prints the reason.
class CutOff : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return kExitCheckFailed; }
};

/// The contribution of a rank or a node to a round.
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
    /// On leaders: makes the node's report from the parts of the node's ranks. The parts are sorted by intra_rank;
    /// parts of uninvited ranks (5) follow. The call may take long.
    std::function<std::string(Parts)> combine;
    /// On the root: makes the answer from the reports of all nodes, which are sorted by node number.
    std::function<std::string(Parts)> decide;
    /// On leaders: returns the share of the answer for one rank of the node.
    std::function<std::string(const std::string& answer, int intra_rank)> split;
  };

  /// Begins to listen, and to connect to other ranks. Throws CommError.
  explicit Exchange(Group group);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Collective over all ranks of the group; returns this rank's share of the answer. Blocks at most a little longer
  /// than the group's patience, plus the time of the steps. Throws CutOff, and errors of this rank's own steps.
  [[nodiscard]] std::string round(std::string part, const Steps& steps) {
    return round(std::move(part), steps, group_.patience);
  }

  /// Collective: waits at most a few seconds for all living ranks, so that all leave together.
  void leave();

  [[nodiscard]] const Group& group() const noexcept { return group_; }
  /// On leaders: the port of the TCP listener; 0 without a listener.
  [[nodiscard]] std::uint16_t port() const noexcept { return links_.port(); }
  /// Duplicates of this rank's connections; exec closes the duplicates. Call it after the last round.
  [[nodiscard]] std::vector<std::pair<Peer, Fd>> duplicate_connections() const {
    return links_.duplicate_connections();
  }
  /// On leaders: why no rank of the node can connect; empty if ranks can.
  [[nodiscard]] const std::string& failure_to_listen() const noexcept { return links_.local_listener().failure; }
  /// On leaders: why calls to the node above failed; empty if no call failed.
  [[nodiscard]] const std::string& failure_of_calls() const { return links_.failure_of_calls(); }

 private:
  using Milliseconds = std::chrono::milliseconds;
  using Queue = std::deque<std::string>;

  /// Messages of a peer, and whether more will come.
  struct Inbox {
    Queue messages;
    std::optional<Part::Absence> end;  ///< set: no more messages will come
    std::string why_weak;
    bool is_given_up = false;  ///< absent from an earlier round: no longer awaited
    [[nodiscard]] bool is_settled() const { return !messages.empty() || end || is_given_up; }
    [[nodiscard]] Part take();
  };

  /// `listener` must come from listen_for_ranks(group), which must be called first, because it may change the group.
  Exchange(NodeListener listener, const Group& group);
  [[nodiscard]] std::string round(std::string part, const Steps& steps, Milliseconds patience);
  [[nodiscard]] Parts collect_members(std::string own, Deadline deadline);
  [[nodiscard]] Parts collect_nodes(std::string own, Deadline deadline, Milliseconds for_stragglers);
  [[nodiscard]] std::string await_answer(Milliseconds patience);
  /// True if the rank above is a leader but not the root. In this case the root reports the absence of that leader.
  [[nodiscard]] bool root_misses_upper() const;
  /// Tells the ranks below that they are cut off, and throws CutOff. The text of CutOff is empty if the root or a
  /// neighbor rank prints the reason.
  [[noreturn]] void give_up(const std::string& why, bool root_knows);
  void await_weak_callers();
  [[noreturn]] void give_up_waiting(Milliseconds patience);
  [[nodiscard]] std::string upper_name() const;

  void take(const Peer& from, std::string message);
  void take_from_above(char kind, int origin, std::string body);
  /// The inbox of member `id`. Makes inboxes up to `id` if there are fewer.
  Inbox& member(int id);
  void lose(const Peer& peer, bool is_weak);
  /// On the root: records that `node` is lost. `why_weak`: why the node proved only the weak key; empty if the node has
  /// ended.
  void lose_node(int node, const std::string& why_weak);
  void send(const Peer& to, char kind, int origin, std::string_view body);
  void send_to_children(char kind, int origin, std::string_view body);

  const Group group_;
  Links links_;
  std::vector<Inbox> members_;  ///< on leaders, by intra_rank; uninvited ranks (5) follow
  std::vector<Inbox> nodes_;    ///< on the root, by node
  Queue answers_;
  int round_ = 0;
  int hurried_round_ = 0;
  bool is_up_lost_ = false;
  bool is_abandoned_ = false;
};

}  // namespace mn::launcher
