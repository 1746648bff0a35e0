// A build without NCCL also knows the backends that need NCCL, to say why it rejects them.
#include <mn/comm/registry.hpp>

namespace mn {
namespace {

constexpr NcclBackend kNcclBackends[] = {{"pure_nccl", nullptr}, {"non_cuda_aware", nullptr}};

}  // namespace

std::span<const NcclBackend> nccl_backends() noexcept { return kNcclBackends; }

}  // namespace mn
