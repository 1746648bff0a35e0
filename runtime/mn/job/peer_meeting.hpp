/// How a rank's monitor meets its neighbors in the tree: it calls its parent, and answers its children's calls.
///
/// (1) Both ends prove that they have their key (core/net/greeting.hpp), which comes from a secret of each. Neither
///     what ranks tell each other over MPI nor what goes over a connection says what it is, and nothing of it serves
///     twice.
/// (2) The parent confirms with a heartbeat. Until it has come, the child sends no more.
/// (3) Strangers hold up nobody: at most kMaxGuests connections wait for the end of their greeting, each for
///     kGreetingTime, and where more come, those that have not called go first.
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

/// What ranks tell each other before they can connect.
struct PeerIntroduction {
  std::uint16_t port = 0;
  Key open = {};  ///< half of its key pair
  std::vector<std::string> addresses;
  pid_t process = 0;  ///< its number on its host

  [[nodiscard]] std::string text() const;
  static PeerIntroduction parse(const std::string& text);
};

class PeerMeeting {
 public:
  using Neighbor = std::pair<int, PeerIntroduction>;

  /// `parent`: none for rank 0.
  PeerMeeting(int rank, Fd listener, const KeyPair& keys, const std::optional<Neighbor>& parent,
              const std::vector<Neighbor>& children);

  /// The ranks that it has met when all are here, or at the deadline, with the connections.
  [[nodiscard]] std::vector<std::pair<int, Fd>> run_until(Deadline deadline);

 private:
  static constexpr std::size_t kMaxGuests = 256;
  static constexpr auto kGreetingTime = std::chrono::seconds(2);
  struct Child {
    int rank;
    Key key;
    bool is_here = false;
  };
  /// A connection whose greeting is not over.
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
  std::optional<int> parent_;  // until it is here
  std::optional<SharedKey> parent_key_;
  std::optional<Caller> caller_;
  Fd unconfirmed_;  // the parent's connection (2)
  std::vector<std::pair<int, Fd>> met_;
};

}  // namespace mn
