/// MPI's communicators by which the ranks of several nodes reduce.
///
/// HostCommunicator makes two sets: one for itself, one for the communicator of its background thread.
/// CommunicatorSetup carries the second set to the thread, because the thread must not make communicators of MPI.
///
/// Cost: one MPI_Comm_split and one MPI_Comm_dup for each communicator.
#pragma once

#include <mn/comm/mpi/mpi.hpp>

namespace mn {

struct NodeComms {
  Mpi node;   ///< ranks of the rank's own node
  Mpi peers;  ///< SliceExchange::split_peers(): ranks of other nodes with an equal slice, if any
};

}  // namespace mn
