/// The choice of a backend by name: from the table for CPUs (host_backends.hpp), or from the table for ranks that each
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

/// The table of backends with NCCL. Of the backends, pure_nccl and non_cuda_aware have no version for CPUs. In a build
/// without NCCL the table has only the rows pure_nccl and non_cuda_aware, with a null `make`.
[[nodiscard]] std::span<const NcclBackend> nccl_backends() noexcept;

}  // namespace mn
