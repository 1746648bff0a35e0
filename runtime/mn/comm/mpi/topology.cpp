#include <mn/comm/mpi/topology.hpp>

#include <algorithm>
#include <cassert>

#include <sys/stat.h>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/small_files.hpp>

namespace mn {
namespace {

/// Returns a text that is equal for processes that can share memory. Not MPI_Comm_split_type: Open MPI 4 asks PMIx,
/// whose store "hash" may name ranks of a different node.
std::string physical_node(const std::string& host) {
  const std::string boot_id = first_line("/proc/sys/kernel/random/boot_id").value_or("");
  struct stat shm {};
  const auto device = stat("/dev/shm", &shm) == 0 ? shm.st_dev : 0;
  return host + '#' + boot_id + '#' + std::to_string(device);
}

}  // namespace

std::vector<int> Topology::ranks_of(int node) const {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) {
    if (nodes[static_cast<std::size_t>(r)] == node) ranks.push_back(r);
  }
  return ranks;
}

bool Topology::uniform() const {
  for (int node = 0; node < inter_size; ++node) {
    if (std::count(nodes.begin(), nodes.end(), node) * inter_size != size) return false;
  }
  return true;
}

Topology make_topology(int rank, std::span<const std::string> node_keys, std::span<const std::string> hosts) {
  if (node_keys.size() != hosts.size() || rank < 0 || static_cast<std::size_t>(rank) >= node_keys.size()) {
    throw ArgumentError("make_topology: rank " + std::to_string(rank) + " of " + std::to_string(node_keys.size()) +
                        " node keys and " + std::to_string(hosts.size()) + " hosts");
  }
  Topology topology;
  topology.rank = rank;
  topology.size = static_cast<int>(node_keys.size());
  topology.hosts.assign(hosts.begin(), hosts.end());
  topology.nodes = number_nodes(node_keys);
  topology.inter_size = 1 + *std::ranges::max_element(topology.nodes);
  topology.inter_rank = topology.nodes[static_cast<std::size_t>(rank)];
  const auto here = topology.ranks_of(topology.inter_rank);
  topology.intra_size = static_cast<int>(here.size());
  topology.intra_rank = static_cast<int>(std::find(here.begin(), here.end(), rank) - here.begin());
  assert(topology.intra_rank < topology.intra_size);
  return topology;
}

Topology find_topology(MPI_Comm comm) {
  const Mpi all = Mpi::duplicate(comm);
  const std::string host = host_name();
  const auto hosts = allgather_texts(all.get(), host);
  auto keys = allgather_texts(all.get(), physical_node(host));
  const auto names = allgather_texts(all.get(), environment("MN_NODE_NAME").value_or(""));
  // If a rank has no name, names are not used at all, because this rank would be on no node with the named ranks.
  if (std::none_of(names.begin(), names.end(), [](const std::string& name) { return name.empty(); })) keys = names;
  return make_topology(all.rank(), keys, hosts);
}

}  // namespace mn
