/// What every backend of communicators starts from.
#pragma once

#include <chrono>
#include <climits>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/topology.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class Communicator;
class Nccl;
struct NodeComms;

/// Made by create_communicator() and Communicator::split(), on all ranks alike but for `device`.
struct CommunicatorSetup {
  std::string name;                                ///< the backend's
  Mpi comm;                                        ///< its ranks
  Topology topology;                               ///< topology of `comm`
  Device device;                                   ///< device of this rank
  std::size_t count_limit = INT_MAX;               ///< elements that one MPI message may count
  bool debug = false;                              ///< whether this rank asks for debug mode
  std::chrono::milliseconds timeout{0};            ///< that this rank asks for; 0: none
  bool in_background = false;                      ///< whether it is the one of another's thread, and has none itself
  std::optional<DType> allreduce_grad_dtype = {};  ///< in which gradients travel; std::nullopt: their own
  /// Collective: makes a communicator of such a setup, as split() does.
  std::shared_ptr<Communicator> (*make)(CommunicatorSetup) = nullptr;
  std::shared_ptr<Nccl> nccl = {};             ///< split() made it for these ranks; null: still to be made
  std::shared_ptr<NodeComms> node_comms = {};  ///< made beforehand for a thread's communicator; null: still to be made
};

}  // namespace mn
