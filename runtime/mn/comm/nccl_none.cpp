// The build without NCCL: backends that have no other form are known by name, and refused with the reason.
#include <mn/comm/nccl_backends.hpp>

namespace mn {
namespace {

constexpr Backend kNcclBackends[] = {{"pure_nccl", nullptr}, {"non_cuda_aware", nullptr}};

}  // namespace

std::span<const Backend> nccl_backends() noexcept { return kNcclBackends; }

}  // namespace mn
