#include <mn/comm/nccl_backends.hpp>

namespace mn {
namespace {

// hierarchical stages through pinned memory itself, as non_cuda_aware did: an MPI that takes device pointers copies
// them to the host too, in order to reduce there.
constexpr Backend kNcclBackends[] = {
    {"pure_nccl", make_pure_nccl},
    {"hierarchical", make_hierarchical_nccl},
    {"non_cuda_aware", make_hierarchical_nccl},
    {"two_dimensional", make_two_dimensional_nccl},
    {"single_node", make_single_node_nccl},
};

}  // namespace

std::span<const Backend> nccl_backends() noexcept { return kNcclBackends; }

}  // namespace mn
