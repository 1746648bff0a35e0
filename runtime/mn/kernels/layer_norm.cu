// One team of threads works on each row: a warp, or for long rows a block.
#include <string>

#include <mn/core/error.hpp>
#include <mn/kernels/device_team.hpp>
#include <mn/kernels/launch.hpp>
#include <mn/kernels/layer_norm_row.hpp>

namespace mn::kernels {
namespace {

constexpr int kBlocksPerMultiprocessor = 4;
constexpr std::int64_t kMaxWidthOfWarp = 1024;
constexpr std::size_t kReducedBytes = 1024;  // shared memory for BlockTeam::reduce()

/// How a block is divided into teams: each warp is a team (Warps), or the block is one team (Blocks).
template <class T>
struct Warps : WarpTeam<T> {
  static constexpr int kThreads = 128;
  static constexpr unsigned kTeams = kThreads / 32;
  static __device__ unsigned index() { return threadIdx.x / 32; }
};
template <class T>
struct Blocks : BlockTeam<T> {
  static constexpr int kThreads = 256;
  static constexpr unsigned kTeams = 1;
  static __device__ unsigned index() { return 0; }
};

/// How many numbers a row takes in shared memory, where each row begins at a multiple of 16 bytes.
__host__ __device__ constexpr std::int64_t padded(std::int64_t width) { return (width + kSome - 1) / kSome * kSome; }

template <class S, class B, class Team>
__global__ void __launch_bounds__(Team::kThreads) forward_kernel(const NormCall call) {
  extern __shared__ uint4 shared[];
  Team team;
  Real<S>* const kept = reinterpret_cast<Real<S>*>(shared) + Team::index() * padded(call.width);
  const std::int64_t teams = std::int64_t{gridDim.x} * Team::kTeams;
  for (std::int64_t row = std::int64_t{blockIdx.x} * Team::kTeams + Team::index(); row < call.rows; row += teams)
    norm_forward_row<S, B>(team, call, row, kept);
}

template <class S, class B, class Team>
__global__ void __launch_bounds__(Team::kThreads) backward_kernel(const NormCall call) {
  extern __shared__ uint4 shared[];
  Team team;
  Real<S>* const all = reinterpret_cast<Real<S>*>(shared);
  const std::int64_t stride = padded(call.width);
  for (std::int64_t i = threadIdx.x; i < 2 * stride * Team::kTeams; i += blockDim.x) all[i] = 0;
  __syncthreads();
  const std::int64_t teams = std::int64_t{gridDim.x} * Team::kTeams;
  for (std::int64_t row = std::int64_t{blockIdx.x} * Team::kTeams + Team::index(); row < call.rows; row += teams)
    norm_backward_row<S, B>(team, call, row, all + Team::index() * 2 * stride, stride);
  __syncthreads();
  write_partials(call, all, stride, Team::kTeams, blockIdx.x, threadIdx.x, blockDim.x);
}

NormCall with_alignment(NormCall call) {
  call.aligned = are_aligned({call.x, call.added, call.weight, call.bias, call.sum, call.normalized, call.d_normalized,
                              call.d_sum, call.d_x, call.d_added},
                             call.width);
  return call;
}

void check_shared(std::size_t bytes, const NormCall& call) {
  if (bytes <= max_shared_bytes(kReducedBytes)) return;
  throw ArgumentError("layer_norm_residual() on this GPU: rows of " + std::to_string(call.width) +
                      " elements need more shared memory than a block has; use torch::layer_norm");
}

template <class S, class B, class Team>
void launch_forward(const NormCall& call, cudaStream_t stream) {
  const auto kernel = forward_kernel<S, B, Team>;
  const std::size_t bytes = static_cast<std::size_t>(padded(call.width)) * Team::kTeams * sizeof(Real<S>);
  check_shared(bytes, call);
  allow_shared_bytes(kernel, bytes);
  kernel<<<blocks_for((call.rows + Team::kTeams - 1) / Team::kTeams), Team::kThreads, bytes, stream>>>(
      with_alignment(call));
}

template <class S, class B, class Team>
void launch_backward(const NormCall& call, cudaStream_t stream) {
  const auto kernel = backward_kernel<S, B, Team>;
  const std::size_t bytes = static_cast<std::size_t>(padded(call.width)) * 2 * Team::kTeams * sizeof(Real<S>);
  check_shared(bytes, call);
  allow_shared_bytes(kernel, bytes);
  kernel<<<blocks_for(norm_partials_on_device(call)), Team::kThreads, bytes, stream>>>(with_alignment(call));
}

/// Calls launch.operator()<S, B>() with the element types of the call's stream (S) and branch (B).
template <class Launch>
void for_types(const NormCall& call, const Launch& launch) {
  if (call.stream != DType::kFloat32) {
    for_float_type(call.stream, [&](auto element) {
      if constexpr (!std::is_same_v<decltype(element), float>)
        launch.template operator()<decltype(element), decltype(element)>();
      return true;
    });
  } else if (call.branch == DType::kFloat32) {
    launch.template operator()<float, float>();
  } else if (call.branch == DType::kBFloat16) {
    launch.template operator()<float, BFloat16>();
  } else {
    launch.template operator()<float, Float16>();
  }
}

}  // namespace

void norm_forward_on_device(const NormCall& call, void* stream) {
  if (call.rows == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  for_types(call, [&]<class S, class B>() {
    call.width <= kMaxWidthOfWarp ? launch_forward<S, B, Warps<S>>(call, on)
                                  : launch_forward<S, B, Blocks<S>>(call, on);
  });
  cuda_check(cudaGetLastError(), "the kernel of a norm");
}

std::int64_t norm_partials_on_device(const NormCall& call) {
  const std::int64_t teams = call.width <= kMaxWidthOfWarp ? Warps<float>::kTeams : Blocks<float>::kTeams;
  const std::int64_t multiprocessors = attribute_of_device(cudaDevAttrMultiProcessorCount);
  return std::min(multiprocessors * kBlocksPerMultiprocessor, (call.rows + teams - 1) / teams);
}

void norm_backward_on_device(const NormCall& call, void* stream) {
  if (call.rows == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  for_types(call, [&]<class S, class B>() {
    call.width <= kMaxWidthOfWarp ? launch_backward<S, B, Warps<S>>(call, on)
                                  : launch_backward<S, B, Blocks<S>>(call, on);
  });
  cuda_check(cudaGetLastError(), "the kernel of a norm's backward");
}

}  // namespace mn::kernels
