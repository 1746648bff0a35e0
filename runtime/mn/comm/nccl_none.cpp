// A build without NCCL knows the names of backends that need NCCL, to reject the names with the reason.
#include <mn/comm/registry.hpp>

namespace mn {
namespace {

constexpr NcclBackend kNcclBackends[] = {{"pure_nccl", nullptr}, {"non_cuda_aware", nullptr}};

}  // namespace

std::span<const NcclBackend> nccl_backends() noexcept { return kNcclBackends; }

}  // namespace mn
