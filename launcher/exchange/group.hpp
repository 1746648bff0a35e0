/// The group of processes that exchange messages, as a rank sees the group. A node's first rank is its leader.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <mn/core/net/key.hpp>
#include <mn/core/net/port_range.hpp>
#include <mn/core/net/socket.hpp>
#include <mn/core/tree.hpp>

namespace mn::launcher {

/// The tree of a job's nodes: two levels below the root for 128 nodes, three for 4,096.
inline constexpr Tree kNodeTree{16};

struct Group {
  std::string job;     ///< unique to the job and equal on all its ranks
  std::string secret;  ///< known only to leaders, who derive ports from the secret; may be empty
  int intra_rank = 0;
  int intra_size = 1;
  int node = 0;  ///< number of this node; rank 0 of the job need not be on node 0
  int nodes = 1;
  std::vector<std::string> hosts = {""};  ///< [nodes] for messages
  /// Returns the addresses of `node`. Called only for neighbors in the tree.
  std::function<std::vector<std::string>(int node)> addresses;
  std::shared_ptr<Keys> keys;                 ///< prove to other nodes that this node is of the job
  std::chrono::milliseconds patience{60000};  ///< time to wait for a rank that is late or does not answer
  /// TCP ports on which leaders listen, in the order of trying. Equal on all ranks.
  std::vector<PortRange> ports{std::begin(kDefaultPorts), std::end(kDefaultPorts)};

  [[nodiscard]] bool is_leader() const noexcept { return intra_rank == 0; }
  [[nodiscard]] bool is_root() const noexcept { return intra_rank == 0 && node == 0; }
};

/// The TCP ports on which the leader of `node` may listen: first of group.ports, then of the default ranges.
[[nodiscard]] std::vector<std::uint16_t> ports_of(const Group& group, int node);
/// The abstract socket names on which this node's leader may listen, in the order of trying.
[[nodiscard]] std::vector<std::string> names_of(const Group& group);

/// The addresses and ports at which leaders of other nodes may reach the leader of `node`.
[[nodiscard]] std::vector<Endpoint> endpoints_of_node(const Group& group, int node);
/// The abstract socket names at which this node's ranks may reach their leader.
[[nodiscard]] std::vector<Endpoint> endpoints_of_leader(const Group& group);
/// Waits up to a second for the node's leader to listen. False if the leader does not listen.
[[nodiscard]] bool has_leader(const Group& group);

/// Claims `text` until this process ends. True if no other process of this node has claimed it. Call this once.
[[nodiscard]] bool claim_text(const std::string& text);

/// Connects to all endpoints at once, for at most `patience`. Returns why each attempt failed; empty if connected.
[[nodiscard]] std::vector<std::string> probe(const std::vector<Endpoint>& endpoints,
                                             std::chrono::milliseconds patience);

/// While an object lives, this process may open enough files for `ranks` connections and their duplicates, if the hard
/// limit allows. The destructor restores the low limit, which programs with select(2) need.
class FileLimit {
 public:
  explicit FileLimit(std::size_t ranks);
  ~FileLimit();
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

  std::string failure;  ///< why the limit is too low; empty if it suffices
  /// Descriptors that the program keeps have at least this number; lower numbers stay free.
  int least_kept = 0;

 private:
  rlimit before_ = {};
  bool is_raised_ = false;
};

/// The socket on which a leader waits for the ranks of its node.
struct NodeListener {
  Fd socket;
  std::string failure;     ///< why no rank can reach the leader; empty if ranks can
  bool is_second = false;  ///< another process of this user is already the leader
  std::unique_ptr<FileLimit> files{};
};

/// Begins to listen if this rank is the leader of a node with several ranks. If another process of the user already
/// listens as the leader, this process becomes an uninvited member of `group` (invariant 6 in links.hpp).
[[nodiscard]] NodeListener listen_for_ranks(Group& group);

}  // namespace mn::launcher
