/// The setup from which every backend makes its communicator.
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

/// Made by create_communicator() and Communicator::split(), equal on all ranks except for `device`.
struct CommunicatorSetup {
  std::string name;                      ///< name of the backend
  Mpi comm;                              ///< the ranks
  Topology topology;                     ///< topology of `comm`
  Device device;                         ///< device of the rank
  std::size_t count_limit = INT_MAX;     ///< most elements of one MPI message
  bool debug = false;                    ///< the rank asks for debug mode
  std::chrono::milliseconds timeout{0};  ///< requested time-out; 0: none
  bool in_background = false;            ///< for the thread of another communicator, without a thread of its own
  std::optional<DType> allreduce_grad_dtype = {};  ///< dtype in which gradients travel; std::nullopt: their own
  /// Collective: makes a communicator from a setup, for split().
  std::shared_ptr<Communicator> (*make)(CommunicatorSetup) = nullptr;
  std::shared_ptr<Nccl> nccl = {};             ///< from split(); null: to be made
  std::shared_ptr<NodeComms> node_comms = {};  ///< for the communicator of a thread; null: to be made
};

}  // namespace mn
