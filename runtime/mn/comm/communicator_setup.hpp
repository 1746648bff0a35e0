/// The values from which every backend makes its communicator (CommunicatorSetup).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/topology.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class Communicator;
class Nccl;

/// The arguments of make_backend(). All ranks hold equal values, except for `device`.
struct CommunicatorSetup {
  std::string name;                                ///< name of the backend
  Mpi comm;                                        ///< MPI communicator of the ranks
  Topology topology;                               ///< topology of `comm`
  Device device;                                   ///< device of the rank
  bool debug = false;                              ///< the rank asks for debug mode
  std::chrono::milliseconds timeout{0};            ///< requested time-out; 0: none
  bool in_background = false;                      ///< for another communicator's background thread; makes no thread
  std::optional<DType> allreduce_grad_dtype = {};  ///< dtype in which gradients are sent; no value: their own dtype
  std::shared_ptr<Nccl> nccl = {};                 ///< made by split(); null: the backend makes it
  NodeComms node_comms = {};                       ///< for a background thread; empty: the backend makes them
  std::shared_ptr<const Mpi> comparisons = {};     ///< share_comparisons() of the communicator that is split, or null
};

/// Collective: makes a communicator of the backend `setup.name`. If every rank has a GPU, uses the backend's version
/// for GPUs. Throws a UsageError that lists all names if the name is unknown. If a call of the communicator gives up,
/// the communicator is never destroyed, because MPI may still use its memory.
[[nodiscard]] std::shared_ptr<Communicator> make_backend(CommunicatorSetup setup);

}  // namespace mn
