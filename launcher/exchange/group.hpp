/// Who takes part in an exchange, and where they can be reached, as one rank's launcher says.
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
  std::string job;     ///< the same on all its ranks, and no other job's
  std::string secret;  ///< what its leaders alone know, by which they choose their ports; may be empty
  int intra_rank = 0;
  int intra_size = 1;
  int node = 0;  ///< rank 0 of the job need not be on node 0
  int nodes = 1;
  std::vector<std::string> hosts = {""};  ///< [nodes] their names, for people
  /// Addresses of a node by which others may reach it. Asked for the nodes next to this one in the tree.
  std::function<std::vector<std::string>(int node)> addresses;
  std::shared_ptr<Keys> keys;                 ///< between nodes
  std::chrono::milliseconds patience{60000};  ///< with ranks that do not come or do not answer
  /// Where leaders listen: the ranges that are tried in turn, the same on all ranks.
  std::vector<PortRange> ports{std::begin(kDefaultPorts), std::end(kDefaultPorts)};

  [[nodiscard]] bool is_leader() const noexcept { return intra_rank == 0; }
  [[nodiscard]] bool is_root() const noexcept { return intra_rank == 0 && node == 0; }
};

/// TCP ports that the first rank of a node tries in turn, and others try to call: some of each range of group.ports,
/// and then of the default ones.
[[nodiscard]] std::vector<std::uint16_t> ports_of(const Group& group, int node);
/// The same within the node.
[[nodiscard]] std::vector<std::string> names_of(const Group& group);

/// Where the first rank of another node, or of this rank's own, may listen.
[[nodiscard]] std::vector<Endpoint> endpoints_of_node(const Group& group, int node);
[[nodiscard]] std::vector<Endpoint> endpoints_of_leader(const Group& group);
/// Whether there is a first rank of this rank's node; waits a second for it.
[[nodiscard]] bool has_leader(const Group& group);

/// Whether this process, in its one call, takes what no other has: of several that give a text, the first, until it
/// ends.
[[nodiscard]] bool take_name(const std::string& text);

}  // namespace mn::launcher
