/// How the launchers of a job exchange what they found and agree on what follows, before any program starts.
///
/// A round goes up and down the tree of all ranks once:
///
///   each rank           gives its part to the leader of its node
///   each leader         combines the parts of its node to a report, which goes to the root
///   the root            decides on an answer, from the reports of all nodes
///   each leader         gives each rank of its node its share of the answer
///
/// 1. All ranks make the same rounds.
/// 2. A rank that does not come in time, dies, or sends garbage is an absent part, or its node an absent report: the
///    root decides about that too, and its answer reaches all who can still be reached.
/// 3. A rank that is cut off from the root passes that on to those below it. It is silent where the root misses the one
///    above it too; without the root itself, one rank of each node that it was connected to speaks.
/// 4. Reports pass the nodes on the way unchanged, and none waits for another.
/// 5. A rank that nobody waits for, as another has its number or it has none, is a further part of its node. It makes
///    the round complete: what it says is why others are missing.
///
/// Cost: with n nodes, 2 log16 n messages one after the other for each round; the root receives n reports over at most
/// 16 connections, and over one for each other rank of its node.
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

/// What to do where jobs beside each other have one name.
inline constexpr const char* kNameJobs =
    "give jobs beside each other names of their own (export another MN_LAUNCH_KEY before each)";

/// What to do where ranks, or a rank that others wait for, did not arrive.
inline constexpr const char* kFindLateRanks =
    "look for a message of its own, or a hung node or file system there, and start mnlaunch on every rank, with one "
    "MN_LAUNCH_KEY if any";

/// This rank is cut off from the ranks that decide. An empty text: another rank says why.
class CutOff : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return kExitCheckFailed; }
};

/// What a rank or a node contributed.
struct Part {
  enum class Absence {
    kLate,    ///< it did not come in time
    kEnded,   ///< it came, and ended or sent garbage
    kWeak,    ///< it came, and has no key but the weak one
    kCutOff,  ///< a node between it and the root has ended
  };
  std::optional<std::string> bytes;
  Absence absence = Absence::kLate;  ///< why there are none
  std::string why_weak{};            ///< what the one above it says of that
};
using Parts = std::vector<Part>;

class Exchange {
 public:
  struct Steps {
    /// On leaders: the node's report from its ranks' parts, by intra_rank; then those of (5). May take long.
    std::function<std::string(Parts)> combine;
    /// On the root: the answer from the reports, by node.
    std::function<std::string(Parts)> decide;
    /// On leaders: the share of a rank of the node in the answer.
    std::function<std::string(const std::string& answer, int intra_rank)> split;
  };

  /// Begins to listen and to call. Throws CommError.
  explicit Exchange(Group group);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Collective over all ranks of the group; returns this rank's share. Blocks for at most a little longer than the
  /// group's patience beyond what the steps take. Throws CutOff, and what this rank's own steps throw.
  [[nodiscard]] std::string round(std::string part, const Steps& steps);

  /// Waits for all ranks that are still there, so that they leave together; some seconds at most.
  void leave();

  [[nodiscard]] const Group& group() const noexcept { return group_; }
  /// For a leader: the port of its TCP listener; 0 without one.
  [[nodiscard]] std::uint16_t port() const noexcept { return links_.port(); }
  /// After the last round: duplicates of this rank's connections, which exec closes.
  [[nodiscard]] std::vector<std::pair<Peer, Fd>> duplicate_connections() const {
    return links_.duplicate_connections();
  }
  /// For a leader that no other rank of its node can reach: why. Else empty.
  [[nodiscard]] const std::string& failure_to_listen() const noexcept { return links_.local_listener().failure; }
  /// For a leader whose parent had to call it: why its own calls failed. Else empty.
  [[nodiscard]] const std::string& failure_of_calls() const { return links_.failure_of_calls(); }

 private:
  using Milliseconds = std::chrono::milliseconds;
  using Queue = std::deque<std::string>;

  /// What came from one peer, and what does not come any more.
  struct Source {
    Queue messages;
    std::optional<Part::Absence> end;  ///< nothing more will come
    std::string why_weak;
    bool is_given_up = false;  ///< it was absent from an earlier round: later ones don't wait for it
    [[nodiscard]] bool is_settled() const { return !messages.empty() || end || is_given_up; }
    [[nodiscard]] Part take();
  };

  /// `group` as listen_for_ranks() has left it.
  Exchange(NodeListener listener, const Group& group);
  [[nodiscard]] std::string round(std::string part, const Steps& steps, Milliseconds patience);
  [[nodiscard]] Parts collect_members(std::string own, Deadline deadline);
  [[nodiscard]] Parts collect_nodes(std::string own, Deadline deadline, Milliseconds for_stragglers);
  [[nodiscard]] std::string await_answer(Milliseconds patience);
  /// Whether the one above this rank is a leader whose absence the root reports, not the root itself.
  [[nodiscard]] bool root_misses_upper() const;
  /// Passes it on to those below, and throws CutOff, without the text where the root says as much.
  [[noreturn]] void give_up(const std::string& why, bool root_knows);
  void await_weak_callers();
  [[noreturn]] void give_up_waiting(Milliseconds patience);
  [[nodiscard]] std::string upper_name() const;

  void take(const Peer& from, std::string message);
  void take_from_above(char kind, int origin, std::string body);
  /// Makes those up to `id` where they are not there yet.
  Source& member(int id);
  void lose(const Peer& peer, bool is_weak);
  /// `why_weak`: empty: it has ended.
  void lose_node(int node, const std::string& why_weak);
  void send(const Peer& to, char kind, int origin, std::string_view body);
  void send_to_children(char kind, int origin, std::string_view body);

  const Group group_;
  Links links_;
  std::vector<Source> members_;  ///< for a leader, by intra_rank; then those of (5)
  std::vector<Source> nodes_;    ///< for the root, by node
  Queue answers_;
  int round_ = 0;
  int hurried_round_ = 0;
  bool is_up_lost_ = false;
  bool is_abandoned_ = false;
};

}  // namespace mn::launcher
