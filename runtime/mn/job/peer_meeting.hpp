/// Connects the peer monitor of a rank to its neighbors in the tree over all ranks. A rank calls the parent, and the
/// children call the rank.
///
/// (1) Both ends prove that they have the connection's key (core/net/greeting.hpp), which is derived from a secret of
///     each end. The key is sent neither over MPI nor over a connection, and no message can be replayed.
/// (2) The parent confirms with a heartbeat. Until then the child sends nothing more.
/// (3) Strangers cannot keep neighbors out. At most kMaxGuests connections (guests) may be in their greeting, each for
///     kGreetingTime. If there are more, a new guest replaces an old guest, if possible an old guest that has sent
///     nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <mn/core/fd.hpp>
#include <mn/core/net/caller.hpp>
#include <mn/core/net/channel.hpp>
#include <mn/core/net/deadline.hpp>
#include <mn/core/net/key.hpp>

namespace mn {

struct PeerIntroduction {
  std::uint16_t port = 0;
  Key open = {};  ///< public half of the rank's key pair
  std::vector<std::string> addresses;
  pid_t process = 0;  ///< process id on its host

  [[nodiscard]] std::string text() const;
  static PeerIntroduction parse(const std::string& text);
};

class PeerMeeting {
 public:
  using Neighbor = std::pair<int, PeerIntroduction>;

  /// `parent` has no value on rank 0, the root of the tree.
  PeerMeeting(int rank, Fd listener, const KeyPair& keys, const std::optional<Neighbor>& parent,
              const std::vector<Neighbor>& children);

  /// Connects to the neighbors, until the deadline at most. Returns the connected ranks and their connections.
  [[nodiscard]] std::vector<std::pair<int, Fd>> run_until(Deadline deadline);

 private:
  static constexpr std::size_t kMaxGuests = 256;
  static constexpr auto kGreetingTime = std::chrono::seconds(2);
  struct Child {
    int rank;
    Key key;
    bool is_here = false;
  };
  struct Guest {
    Channel channel;
    bool has_called = false;
    Deadline until;
  };

  [[nodiscard]] bool is_over() const;
  void wait(Deadline until);
  void accept();
  void greet();
  [[nodiscard]] bool greet(Guest& guest);
  [[nodiscard]] Child* child_of(const Guest& guest);
  void call_parent();
  void meet(int rank, Fd socket) { met_.emplace_back(rank, std::move(socket)); }

  int rank_;
  Fd listener_;
  std::vector<Child> children_;
  std::vector<Guest> guests_;
  std::optional<int> parent_;  // rank of the parent; no value once the parent is connected
  std::optional<SharedKey> parent_key_;
  std::optional<Caller> caller_;
  Fd unconfirmed_;  // connection to the parent until the parent confirms it (2)
  std::vector<std::pair<int, Fd>> met_;
};

}  // namespace mn
