/// Finds a backend by its name, in two tables: the backends for CPUs (host_backends.hpp), and the backends for jobs in
/// which every rank has a GPU (nccl_backends.cpp).
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <mn/comm/communicator.hpp>

namespace mn {

struct NcclBackend {
  std::string_view name;
  std::shared_ptr<Communicator> (*make)(CommunicatorSetup);
};

/// The backends with NCCL. Two of them, pure_nccl and non_cuda_aware, have no version for CPUs. In a build without NCCL
/// the table has only these two, with a null `make`.
[[nodiscard]] std::span<const NcclBackend> nccl_backends() noexcept;

}  // namespace mn
