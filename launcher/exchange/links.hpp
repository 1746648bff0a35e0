/// All connections of one rank's mnlaunch process. The ranks of a node are connected to the node's first rank, the
/// leader. The leaders are connected to each other in a tree (group.hpp).
///
/// 1. Each rank calls the rank above and waits for calls of the ranks below. If a child node has not called after a
///    second, its parent calls the child, because a firewall may let connections pass in one direction only.
/// 2. If parent and child call each other, the child decides: after the child's answer, its own call ends.
/// 3. A peer is lost once its connection has ended, and does not come again.
/// 4. Messages to a peer wait until the peer has come.
/// 5. A child that proves only the weak key in its call (greeting.hpp) counts as lost. The child keeps the connection
///    open, and waits until the parent ends.
/// 6. A rank that has no number, or a number that is taken, may call as an uninvited member, because the node must
///    learn of the rank's error.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mn/core/net/caller.hpp>
#include <mn/core/net/channel.hpp>

#include "exchange/group.hpp"

namespace mn::launcher {

struct Peer {
  enum class Kind {
    kUp,      ///< the rank above: the leader, or on leaders the parent node's leader
    kMember,  ///< a rank of this leader's node
    kChild,   ///< leader of a node below
  };
  Kind kind = Kind::kUp;
  int id = 0;  ///< intra_rank of a member (higher for an uninvited member, 6), or node of a child
  friend bool operator==(const Peer&, const Peer&) = default;
};

class Links {
 public:
  using OnMessage = std::function<void(const Peer&, std::string)>;
  using OnLoss = std::function<void(const Peer&, bool is_weak)>;  ///< `is_weak`: the peer proved only the weak key (5)

  /// Begins to listen if other ranks call this rank. The callbacks run in run_until() and flush(), and may call send().
  /// Throws CommError.
  Links(const Group& group, NodeListener listener, OnMessage on_message, OnLoss on_loss);

  /// Sends and receives messages until done() returns true, or until the deadline.
  void run_until(const std::function<bool()>& done, Deadline deadline);
  /// Sends the message, or keeps it until the peer comes (invariant 4). If the peer is lost, drops the message.
  void send(const Peer& to, std::string_view message);
  /// Runs until all messages to the peers that have come are sent, or until the deadline.
  void flush(Deadline deadline);

  [[nodiscard]] bool has_come(const Peer& peer) const {
    const Link* link = find(peer);
    return link != nullptr && link->channel != nullptr;
  }
  /// Whether this rank and the rank above could prove only the weak key to each other (invariant 5).
  [[nodiscard]] bool has_weak_upper() const {
    const Link* up = find({Peer::Kind::kUp, 0});
    return up != nullptr && up->is_weak();
  }
  /// Why calls to the rank above failed, even if that rank has called instead; empty if none failed.
  [[nodiscard]] const std::string& failure_of_calls() const {
    const Link* up = find({Peer::Kind::kUp, 0});
    return up != nullptr && up->caller ? up->caller->failure() : failure_;
  }
  /// Returns duplicates of all connections, which close on exec; an ended connection if a peer has ended. Call this
  /// while no message is in flight.
  [[nodiscard]] std::vector<std::pair<Peer, Fd>> duplicate_connections() const;
  /// On leaders: the leader's TCP port; 0 if it does not listen.
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const NodeListener& local_listener() const noexcept { return local_; }
  /// Number of members of this leader's node: all invited ranks, and uninvited members that have come (invariant 6).
  [[nodiscard]] std::size_t member_count() const {
    const auto is_member = [](const Link& link) { return link.peer.kind == Peer::Kind::kMember; };
    return static_cast<std::size_t>(std::ranges::count_if(links_, is_member));
  }
  /// Whether a process of this node is connected and still in the greeting.
  [[nodiscard]] bool expects_member() const { return std::ranges::any_of(guests_, &Guest::is_local); }
  /// From now on, uninvited members (invariant 6) are refused.
  void refuse_extras() {
    takes_extras_ = false;
    close_when_all_are_here();
  }

 private:
  struct Link {
    Peer peer;
    std::unique_ptr<Channel> channel;
    std::unique_ptr<Caller> caller;
    bool is_lost = false;
    [[nodiscard]] bool is_weak() const { return channel && channel->call().is_weak; }
    std::vector<std::string> waiting;  ///< messages for a peer that has not come yet
  };
  static constexpr std::size_t kMaxGuests = 1024;
  /// An incoming connection during its greeting.
  struct Guest {
    std::unique_ptr<Channel> channel;
    bool is_local;
    Deadline until;
  };

  void listen_for_nodes();
  [[nodiscard]] std::unique_ptr<Caller> caller_of(const Peer& peer);
  void step(Deadline now);
  void call_late_children();
  [[nodiscard]] Deadline next_step(Deadline latest) const;
  void wait(Deadline until);
  void accept_from(const Fd& listener, bool is_local);
  void greet_guests(Deadline now);
  void greet(Guest& guest);
  void take_called();
  void install(Link& link, std::unique_ptr<Channel> channel);
  void close_when_all_are_here();
  void deliver();
  [[nodiscard]] const Link* find(const Peer& peer) const {
    const auto found = std::ranges::find(links_, peer, &Link::peer);
    return found == links_.end() ? nullptr : &*found;
  }
  [[nodiscard]] Link* find(const Peer& peer) { return const_cast<Link*>(std::as_const(*this).find(peer)); }
  /// The link of the guest's number. Null if this number is not expected, or if the link has a connection.
  [[nodiscard]] Link* link_of(const Guest& guest);
  [[nodiscard]] bool is_calling(const Link& link) const;

  const Group& group_;
  OnMessage on_message_;
  OnLoss on_loss_;
  SharedKey local_keys_{key_of_text("within a node: " + group_.job)};
  NodeListener local_;
  bool takes_extras_ = true;
  Fd listener_;
  std::uint16_t port_ = 0;
  std::vector<Link> links_;
  std::vector<Guest> guests_;
  const Channel* answered_parent_ = nullptr;  ///< the guest whose call from the parent was answered; else null
  Deadline call_children_at_;
  std::string failure_;
};

}  // namespace mn::launcher
