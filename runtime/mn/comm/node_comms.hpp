/// The communicators of MPI's by which the ranks of several nodes reduce: made by the thread that makes a Communicator,
/// for it and for the thread of its calls in the background.
///
/// NodeCommunicator makes them and keeps a second set with the communicator that it splits; Communicator hands that set
/// on to the one of the background, whose NodeCommunicator takes it.
///
/// Cost: one MPI_Comm_split and one MPI_Comm_dup each; with one node there are no peers.
/// Source: MPI 3.1, 6.7 (caching): what a library keeps with a communicator.
#pragma once

#include <mn/comm/mpi.hpp>
#include <mn/comm/slice_exchange.hpp>
#include <mn/comm/topology.hpp>

namespace mn {

struct NodeComms {
  Mpi node;   ///< the ranks of this rank's node
  Mpi peers;  ///< as SliceExchange::split_peers()
};

/// Collective over `comm`, whose topology it is.
[[nodiscard]] NodeComms split_node_comms(MPI_Comm comm, const Topology& topology, BetweenNodes between);
/// Collective over each of the two.
[[nodiscard]] NodeComms duplicate(const NodeComms& comms);

// These two are local, and for one thread at a time.

/// Keeps `comms` with `comm` until they are taken; nothing if there are none.
void keep_node_comms(MPI_Comm comm, NodeComms comms);
/// What is kept with `comm`; none for MPI_COMM_NULL.
[[nodiscard]] NodeComms take_node_comms(MPI_Comm comm);

}  // namespace mn
