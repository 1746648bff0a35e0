/// The members of an exchange and their addresses, as one rank sees them, and the socket on which the ranks of a node
/// connect to their leader, the first rank of the node.
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

/// The tree of a job's nodes. A tree of 128 nodes has two levels below the root, and a tree of 4,096 nodes has three.
inline constexpr Tree kNodeTree{16};

struct Group {
  std::string job;     ///< unique to the job and equal on all its ranks
  std::string secret;  ///< known only to leaders, who derive their ports from the text; may be empty
  int intra_rank = 0;
  int intra_size = 1;
  int node = 0;  ///< number of this node; rank 0 of the job need not be on node 0
  int nodes = 1;
  std::vector<std::string> hosts = {""};  ///< [nodes] names of the nodes, for messages
  /// Returns the addresses at which other nodes reach `node`. Called for neighbors in the tree.
  std::function<std::vector<std::string>(int node)> addresses;
  std::shared_ptr<Keys> keys;                 ///< prove to other nodes that this node is of the job
  std::chrono::milliseconds patience{60000};  ///< time to wait for ranks that do not come or do not answer
  /// The ranges of ports on which leaders listen. The ranges are tried in turn, and are equal on all ranks.
  std::vector<PortRange> ports{std::begin(kDefaultPorts), std::end(kDefaultPorts)};

  [[nodiscard]] bool is_leader() const noexcept { return intra_rank == 0; }
  [[nodiscard]] bool is_root() const noexcept { return intra_rank == 0 && node == 0; }
};

/// TCP ports on which the first rank of `node` may listen, in the order of trying: first some ports of each range of
/// group.ports, then some ports of the default ranges.
[[nodiscard]] std::vector<std::uint16_t> ports_of(const Group& group, int node);
/// Abstract socket names on which the first rank of this node may listen, in the order of trying.
[[nodiscard]] std::vector<std::string> names_of(const Group& group);

/// Endpoints of the first rank of `node`, for leaders of other nodes.
[[nodiscard]] std::vector<Endpoint> endpoints_of_node(const Group& group, int node);
/// Endpoints of the first rank of this node, for the node's ranks.
[[nodiscard]] std::vector<Endpoint> endpoints_of_leader(const Group& group);
/// Whether the first rank of this node listens; waits up to a second until it does.
[[nodiscard]] bool has_leader(const Group& group);

/// Claims `text` for this process. True in the first process of this node that claims `text`; the claim ends with that
/// process. Call it once.
[[nodiscard]] bool claim_text(const std::string& text);

/// Connects to all endpoints at once, waits for at most `patience`, and closes the connections. Returns a text for each
/// endpoint: empty if the endpoint accepted the connection, else the reason.
[[nodiscard]] std::vector<std::string> probe(const std::vector<Endpoint>& endpoints,
                                             std::chrono::milliseconds patience);

/// Raises the soft limit of open files, if the hard limit allows, because each of `ranks` ranks needs two descriptors:
/// a connection and its duplicate. The destructor restores the limit, because programs with select(2) need a low limit.
class FileLimit {
 public:
  explicit FileLimit(std::size_t ranks);
  ~FileLimit();
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

  std::string failure;  ///< why the limit is too low; empty if it suffices
  /// The lowest number for a descriptor that stays open in the program. If the limit is raised, lower numbers stay free
  /// for the program.
  int least_kept = 0;

 private:
  rlimit before_ = {};
  bool is_raised_ = false;
};

/// The socket on which the ranks of a node call their leader.
struct NodeListener {
  Fd socket;
  std::string failure;     ///< why no rank can reach the leader; empty if ranks can
  bool is_second = false;  ///< another process of this user is the leader already
  std::unique_ptr<FileLimit> files{};
};

/// Begins to listen if this rank leads a node with several ranks; for any other rank the result has no socket. If
/// another process of this user already listens as the leader, this process becomes a rank without a number in `group`
/// (links.hpp, 6).
[[nodiscard]] NodeListener listen_for_ranks(Group& group);

}  // namespace mn::launcher
