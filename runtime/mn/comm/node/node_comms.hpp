/// The communicators of MPI's by which the ranks of several nodes reduce.
///
/// A HostCommunicator of several nodes makes two sets: one for itself, one for the communicator of the thread that makes
/// its calls in the background, to which CommunicatorSetup carries it. The thread makes no communicator of MPI's.
///
/// Cost: one MPI_Comm_split and one MPI_Comm_dup for each communicator.
#pragma once

#include <mn/comm/mpi/mpi.hpp>

namespace mn {

struct NodeComms {
  Mpi node;   ///< the ranks of this rank's node
  Mpi peers;  ///< SliceExchange::split_peers(): the ranks of other nodes that have this rank's slice, if any
};

}  // namespace mn
