/// The choice of a backend by name: from the table for CPUs (host_backends.hpp), or from the one for ranks that each
/// have a GPU (nccl_backends.cpp).
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <mn/comm/communicator.hpp>

namespace mn {

/// A row of the table for GPUs.
struct NcclBackend {
  std::string_view name;
  std::shared_ptr<Communicator> (*make)(CommunicatorSetup);
};

/// Collective: the backend that `setup.name` names, in the form for GPUs where every rank has one. Throws UsageError
/// that lists the names for any other. One that has given up a call is never destroyed.
[[nodiscard]] std::shared_ptr<Communicator> make_backend(CommunicatorSetup setup);

/// Backends that work through NCCL; pure_nccl and non_cuda_aware have no other form. In a build without NCCL those two
/// alone, with a null `make`.
[[nodiscard]] std::span<const NcclBackend> nccl_backends() noexcept;

}  // namespace mn
