#include <algorithm>
#include <map>

#include <mn/comm/mpi.hpp>
#include <mn/comm/topology.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

/// Collective: the text of every rank.
std::vector<std::string> allgather_texts(MPI_Comm comm, int size, const std::string& text) {
  const auto ranks = static_cast<std::size_t>(size);
  int length = static_cast<int>(text.size());
  std::vector<int> lengths(ranks);
  mpi_check(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm), "gathering host names");
  std::vector<int> places(ranks, 0);
  for (std::size_t i = 1; i < ranks; ++i) places[i] = places[i - 1] + lengths[i - 1];
  std::string all(static_cast<std::size_t>(places.back() + lengths.back()), '\0');
  mpi_check(MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), places.data(), MPI_CHAR, comm),
            "gathering host names", all.size());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(places[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

/// Collective: names the set of ranks that can share memory, by host and lowest rank.
std::string physical_node(const Mpi& all, const std::string& host) {
  const Mpi shared = Mpi::split_shared(all.get());
  int lowest = all.rank();
  mpi_check(MPI_Bcast(&lowest, 1, MPI_INT, 0, shared.get()), "naming the node");
  return host + '#' + std::to_string(lowest);
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
  std::map<std::string, int> numbers;  // nodes by first appearance, which is the order of their lowest ranks
  for (const auto& key : node_keys) {
    topology.nodes.push_back(numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second);
  }
  topology.inter_size = static_cast<int>(numbers.size());
  topology.inter_rank = topology.nodes[static_cast<std::size_t>(rank)];
  const auto here = topology.ranks_of(topology.inter_rank);
  topology.intra_size = static_cast<int>(here.size());
  topology.intra_rank = static_cast<int>(std::find(here.begin(), here.end(), rank) - here.begin());
  return topology;
}

Topology find_topology(MPI_Comm comm) {
  const Mpi all = Mpi::duplicate(comm);
  const int size = all.size();
  const std::string host = host_name();
  const std::string physical = physical_node(all, host);
  const auto hosts = allgather_texts(all.get(), size, host);
  auto keys = allgather_texts(all.get(), size, physical);
  const auto names = allgather_texts(all.get(), size, environment("MN_NODE_NAME").value_or(""));
  if (std::none_of(names.begin(), names.end(), [](const std::string& name) { return name.empty(); })) keys = names;
  return make_topology(all.rank(), keys, hosts);
}

}  // namespace mn
