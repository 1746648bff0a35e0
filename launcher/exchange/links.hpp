/// All connections of one launcher. Ranks of a node are connected to the node's first one, the leader; leaders to each
/// other in a tree (node_tree.hpp).
///
/// 1. Everyone calls the one above and waits for those below. A leader whose child has not come after a second calls
///    it: a firewall may let connections pass in one direction only.
/// 2. The lower end decides which of two connections counts. It never offers both: while it has answered one call of
///    its parent, it calls no longer.
/// 3. A peer that has come and whose connection ends is lost and does not come again.
/// 4. Messages to a peer wait until it comes.
/// 5. A child whose call proves the weak key alone (greeting.hpp) is lost; its own end waits for the parent's end.
/// 6. A rank whose number another has, or that has none, may call all the same, so that the others learn of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mn/core/net/caller.hpp>
#include <mn/core/net/channel.hpp>

#include "exchange/file_limit.hpp"
#include "exchange/group.hpp"

namespace mn::launcher {

struct Peer {
  enum class Kind {
    kUp,      ///< the one above: the leader, or the parent's leader
    kMember,  ///< a rank of this leader's node
    kChild,   ///< the leader of a node below
  };
  Kind kind = Kind::kUp;
  int id = 0;  ///< a member's intra_rank, or its number beyond those (6); a child's node
  friend bool operator==(const Peer&, const Peer&) = default;
};

/// On what the ranks of a node call their leader.
struct NodeListener {
  Fd socket;
  std::string failure;     ///< why no other rank can reach the leader; else empty
  bool is_second = false;  ///< another process of this user is the leader already
  std::unique_ptr<FileLimit> files{};
};

/// For a leader whose node has other ranks; a second one becomes a rank without a number (6).
[[nodiscard]] NodeListener listen_for_ranks(Group& group);

class Links {
 public:
  using OnMessage = std::function<void(const Peer&, std::string)>;
  using OnLoss = std::function<void(const Peer&, bool is_weak)>;  ///< (5)

  /// Begins to listen where somebody is to call. The callbacks run in run_until(), and may send. Throws CommError.
  Links(const Group& group, NodeListener listener, OnMessage on_message, OnLoss on_loss);

  /// Sends and receives until `done()` or the deadline.
  void run_until(const std::function<bool()>& done, Deadline deadline);
  /// Nothing is sent to a peer that is lost.
  void send(const Peer& to, std::string_view message);
  /// run_until() until all that was sent to peers that are here has left this process.
  void flush(Deadline deadline);

  [[nodiscard]] bool has_come(const Peer& peer) const;
  /// Whether the one above has proved the weak key alone (5).
  [[nodiscard]] bool has_weak_upper() const;
  /// Why the calls to the one above fail, or failed where that one had to call; empty: they did not fail.
  [[nodiscard]] const std::string& failure_of_calls() const;
  /// Duplicates of all connections, as long as nothing is in flight on them; exec closes them. In place of one that the
  /// peer has ended, another that has ended.
  [[nodiscard]] std::vector<std::pair<Peer, Fd>> duplicate_connections() const;
  /// Port of this leader's TCP listener; 0 without one.
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const NodeListener& local_listener() const noexcept { return local_; }
  /// Members that are awaited, or have come all the same (6).
  [[nodiscard]] std::size_t member_count() const;
  /// Whether one has connected, and has not said yet who it is.
  [[nodiscard]] bool expects_member() const;
  /// From here on (6) may not.
  void refuse_extras();

 private:
  struct Link {
    Peer peer;
    std::unique_ptr<Channel> channel;
    std::unique_ptr<Caller> caller;
    bool is_lost = false;
    [[nodiscard]] bool is_weak() const { return channel && channel->call().is_weak; }
    std::vector<std::string> waiting;  ///< messages, until it comes
  };
  static constexpr std::size_t kMaxGuests = 1024;
  /// A connection that another process made, until its greeting is over.
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
  [[nodiscard]] Link* find(const Peer& peer);
  [[nodiscard]] const Link* find(const Peer& peer) const;
  /// The link that a guest's call is for; null: none, or it has its connection.
  [[nodiscard]] Link* link_of(const Guest& guest);
  /// Whether the link's peer is to be called now.
  [[nodiscard]] bool is_calling(const Link& link) const;

  const Group& group_;
  OnMessage on_message_;
  OnLoss on_loss_;
  SharedKey local_keys_;
  NodeListener local_;
  bool takes_extras_ = true;
  Fd listener_;
  std::uint16_t port_ = 0;
  std::vector<Link> links_;
  std::vector<Guest> guests_;
  const Channel* answered_parent_ = nullptr;  ///< for a guest
  Deadline call_children_at_;
  std::string failure_;
};

}  // namespace mn::launcher
