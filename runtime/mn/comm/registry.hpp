/// The tables of backends: one for any device, one for ranks that each have a GPU.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <mn/comm/communicator.hpp>

namespace mn {

/// An entry of a table.
struct Backend {
  std::string_view name;
  std::shared_ptr<Communicator> (*make)(CommunicatorSetup);
};

/// Collective: the backend that `setup.name` names, in the form for GPUs where every rank has one. Throws UsageError
/// that lists the names for any other. One that has given up a call is never destroyed.
[[nodiscard]] std::shared_ptr<Communicator> make_backend(CommunicatorSetup setup);

/// Backends that work through NCCL; pure_nccl and non_cuda_aware have no other form. In a build without NCCL those two
/// alone, with a null `make`.
[[nodiscard]] std::span<const Backend> nccl_backends() noexcept;

/// Throws UsageError that names the communicators to take `instead` unless all ranks are on one node.
void require_single_node(const Topology& topology, std::string_view instead);

// The entries of the tables: mpi_backends.cpp, nccl_backends.cpp.
[[nodiscard]] std::shared_ptr<Communicator> make_naive(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_flat(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_hierarchical(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_two_dimensional(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_single_node(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_dummy(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_pure_nccl(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_single_node_nccl(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_hierarchical_nccl(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_two_dimensional_nccl(CommunicatorSetup setup);

}  // namespace mn
