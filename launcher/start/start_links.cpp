#include "start/start_links.hpp"

#include <fcntl.h>

#include "exchange/node_tree.hpp"

namespace mn::launcher {
namespace {

std::string name_of(const Peer& peer, const Group& group, const Roster& roster) {
  if (peer.kind == Peer::Kind::kMember) {
    return "rank " + std::to_string(roster.ranks_here.at(static_cast<std::size_t>(peer.id))) + " on host " +
           group.hosts[static_cast<std::size_t>(group.node)];
  }
  const bool is_below = peer.kind == Peer::Kind::kChild;
  const int node = is_below ? peer.id : group.is_leader() ? kNodeTree.parent_of(group.node) : group.node;
  return "the first rank on host " + group.hosts[static_cast<std::size_t>(node)];
}

/// Whether this rank reports the loss of the peer: of peers below, and on a single rank, of the root.
bool reports(const Peer& peer, const Group& group) {
  if (peer.kind != Peer::Kind::kUp) return true;
  return group.nodes > 1 ? group.is_leader() && group.node == 1 : group.intra_rank == 1;
}

}  // namespace

std::vector<KeptLink> keep_links(const Exchange& exchange, const Roster& roster) {
  std::vector<KeptLink> links;
  for (auto& [peer, socket] : exchange.duplicate_connections()) {
    StartLink link{.fd = socket.get(),
                   .inode = inode_of_socket(socket.get()),
                   .reports = reports(peer, exchange.group()),
                   .name = name_of(peer, exchange.group(), roster)};
    links.push_back({std::move(socket), std::move(link)});
  }
  return links;
}

void leave_links(const std::vector<KeptLink>& links, Variables& variables) {
  if (links.empty()) return;
  std::vector<StartLink> left;
  for (const auto& kept : links) {
    if (fcntl(kept.link.fd, F_SETFD, 0) == 0) left.push_back(kept.link);
  }
  variables.set(kStartLinksVariable, start_links_text(left));
}

}  // namespace mn::launcher
