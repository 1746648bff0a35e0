/// The backends that work through NCCL, each defined in the file of its name.
#pragma once

#include <memory>
#include <span>

#include <mn/comm/registry.hpp>

namespace mn {

/// For ranks that all have a GPU; two of them without another form (pure_nccl, non_cuda_aware). In a build without NCCL
/// the same names, with nothing to make them.
[[nodiscard]] std::span<const Backend> nccl_backends() noexcept;

[[nodiscard]] std::shared_ptr<Communicator> make_pure_nccl(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_single_node_nccl(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_hierarchical_nccl(CommunicatorSetup setup);
[[nodiscard]] std::shared_ptr<Communicator> make_two_dimensional_nccl(CommunicatorSetup setup);

}  // namespace mn
