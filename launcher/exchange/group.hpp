/// The group of processes that exchange messages, as one rank sees it. A node's first rank is its leader.
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

/// The tree of a job's nodes. 128 nodes take two levels below the root, and 4,096 nodes three.
inline constexpr Tree kNodeTree{16};

struct Group {
  std::string job;     ///< unique to the job and equal on all its ranks
  std::string secret;  ///< known only to leaders, who derive their ports from the text; may be empty
  int intra_rank = 0;
  int intra_size = 1;
  int node = 0;  ///< number of this node; rank 0 of the job need not be on node 0
  int nodes = 1;
  std::vector<std::string> hosts = {""};  ///< [nodes] names of the nodes, for messages
  /// Returns the addresses at which the node `node` can be reached. Called only for neighbors in the tree.
  std::function<std::vector<std::string>(int node)> addresses;
  std::shared_ptr<Keys> keys;                 ///< prove to other nodes that this node is of the job
  std::chrono::milliseconds patience{60000};  ///< time to wait for ranks that do not come or do not answer
  /// The ranges of TCP ports on which leaders listen, in the order of trying. All ranks have the same ranges.
  std::vector<PortRange> ports{std::begin(kDefaultPorts), std::end(kDefaultPorts)};

  [[nodiscard]] bool is_leader() const noexcept { return intra_rank == 0; }
  [[nodiscard]] bool is_root() const noexcept { return intra_rank == 0 && node == 0; }
};

/// The TCP ports on which the first rank of `node` may listen: first of group.ports, then of the default ranges.
[[nodiscard]] std::vector<std::uint16_t> ports_of(const Group& group, int node);
/// The abstract socket names on which the first rank of this node may listen, in the order of trying.
[[nodiscard]] std::vector<std::string> names_of(const Group& group);

/// The endpoints (addresses and ports) at which leaders of remote nodes may reach the first rank of the node `node`.
[[nodiscard]] std::vector<Endpoint> endpoints_of_node(const Group& group, int node);
/// The endpoints (abstract socket names) at which the ranks of this node may reach the node's first rank.
[[nodiscard]] std::vector<Endpoint> endpoints_of_leader(const Group& group);
/// Waits up to a second for the first rank of this node to listen, and returns whether it listens.
[[nodiscard]] bool has_leader(const Group& group);

/// Claims `text` until this process ends. Returns true if no other process of this node has claimed it. Call this once.
[[nodiscard]] bool claim_text(const std::string& text);

/// Connects to all endpoints at once, for at most `patience`. A connection gives an empty text, any other the reason.
[[nodiscard]] std::vector<std::string> probe(const std::vector<Endpoint>& endpoints,
                                             std::chrono::milliseconds patience);

/// While an object lives, this process may open enough files for `ranks` connections and their duplicates, if the hard
/// limit allows. Programs with select(2) need the low limit again.
class FileLimit {
 public:
  explicit FileLimit(std::size_t ranks);
  ~FileLimit();
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

  std::string failure;  ///< why the limit is too low; empty if it suffices
  /// Descriptors that stay open in the program have at least this number. Lower numbers stay free for the program.
  int least_kept = 0;

 private:
  rlimit before_ = {};
  bool is_raised_ = false;
};

/// The socket on which a leader waits for the calls of the ranks of its node.
struct NodeListener {
  Fd socket;
  std::string failure;     ///< why no rank can reach the leader; empty if ranks can
  bool is_second = false;  ///< another process of this user is the leader already
  std::unique_ptr<FileLimit> files{};
};

/// Begins to listen if this rank is the leader of a node with several ranks. If a process of the user already listens
/// as the leader, this process becomes an uninvited member of `group` (invariant 6 in links.hpp).
[[nodiscard]] NodeListener listen_for_ranks(Group& group);

}  // namespace mn::launcher
