#include <memory>
#include <utility>

#include <mn/comm/node_comms.hpp>

namespace mn {
namespace {

/// The key of what is kept; for the life of the process.
int node_comms_key() {
  static const int made = [] {
    int value = MPI_KEYVAL_INVALID;
    mpi_check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &value, nullptr),
              "MPI_Comm_create_keyval");
    return value;
  }();
  return made;
}

}  // namespace

NodeComms split_node_comms(MPI_Comm comm, const Topology& topology, BetweenNodes between) {
  NodeComms comms;
  comms.node = Mpi::split(comm, topology.inter_rank, topology.rank);
  comms.peers = SliceExchange::split_peers(comm, topology, between);
  return comms;
}

NodeComms duplicate(const NodeComms& comms) {
  NodeComms copy;
  copy.node = Mpi::duplicate(comms.node.get());
  if (comms.peers) copy.peers = Mpi::duplicate(comms.peers.get());
  return copy;
}

void keep_node_comms(MPI_Comm comm, NodeComms comms) {
  if (!comms.node) return;
  auto kept = std::make_unique<NodeComms>(std::move(comms));
  mpi_check(MPI_Comm_set_attr(comm, node_comms_key(), kept.get()), "MPI_Comm_set_attr");
  static_cast<void>(kept.release());
}

NodeComms take_node_comms(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL || !mpi_is_up()) return {};
  void* kept = nullptr;
  int found = 0;
  mpi_check(MPI_Comm_get_attr(comm, node_comms_key(), static_cast<void*>(&kept), &found), "MPI_Comm_get_attr");
  if (found == 0) return {};
  mpi_check(MPI_Comm_delete_attr(comm, node_comms_key()), "MPI_Comm_delete_attr");
  const std::unique_ptr<NodeComms> owner(static_cast<NodeComms*>(kept));
  return std::move(*owner);
}

}  // namespace mn
