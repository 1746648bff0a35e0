/// The members of an exchange and their addresses, from the view of one rank's launcher.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <mn/core/net/key.hpp>
#include <mn/core/net/port_range.hpp>
#include <mn/core/net/socket.hpp>

namespace mn::launcher {

struct Group {
  std::string job;     ///< unique to the job and equal on all its ranks
  std::string secret;  ///< known to leaders alone, for the choice of their ports; may be empty
  int intra_rank = 0;
  int intra_size = 1;
  int node = 0;  ///< rank 0 of the job need not be on node 0
  int nodes = 1;
  std::vector<std::string> hosts = {""};  ///< [nodes] names of the nodes, for messages
  /// Addresses of a node for other nodes. Called for neighbors in the tree.
  std::function<std::vector<std::string>(int node)> addresses;
  std::shared_ptr<Keys> keys;                 ///< prove membership between nodes
  std::chrono::milliseconds patience{60000};  ///< with ranks that do not come or do not answer
  /// Port ranges for leaders to listen in, tried in turn; equal on all ranks.
  std::vector<PortRange> ports{std::begin(kDefaultPorts), std::end(kDefaultPorts)};

  [[nodiscard]] bool is_leader() const noexcept { return intra_rank == 0; }
  [[nodiscard]] bool is_root() const noexcept { return intra_rank == 0 && node == 0; }
};

/// TCP ports on which the first rank of `node` may listen, in the order of trying: some of each range of group.ports,
/// then of the default ranges.
[[nodiscard]] std::vector<std::uint16_t> ports_of(const Group& group, int node);
/// Abstract socket names on which the first rank of this node may listen, in the order of trying.
[[nodiscard]] std::vector<std::string> names_of(const Group& group);

/// Endpoints of the first rank of `node`, for leaders of other nodes.
[[nodiscard]] std::vector<Endpoint> endpoints_of_node(const Group& group, int node);
/// Endpoints of the first rank of this node, for the node's ranks.
[[nodiscard]] std::vector<Endpoint> endpoints_of_leader(const Group& group);
/// Whether this node has a first rank; waits up to a second for it.
[[nodiscard]] bool has_leader(const Group& group);

/// True in the first process of this node that claims `text`; the claim ends with the process. Call it once.
[[nodiscard]] bool claim_text(const std::string& text);

}  // namespace mn::launcher
