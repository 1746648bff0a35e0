// Each part of a strip (batch_norm_row.hpp) is the work of one block of threads.
#include <mn/kernels/batch_norm_row.hpp>
#include <mn/kernels/device_team.hpp>
#include <mn/kernels/launch.hpp>

namespace mn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kBlocksPerMultiprocessor = 8;

__device__ StripPart part_of_block(const BatchNormCall& call) {
  return strip_part(call, blockIdx.x, blockIdx.y, gridDim.y);
}

template <class T>
__global__ void __launch_bounds__(kThreads) forward_kernel(const BatchNormCall call) {
  BlockTeam<T> team;
  batch_norm_forward_strip<T>(team, call, part_of_block(call));
}

template <class T>
__global__ void __launch_bounds__(kThreads) sums_kernel(const BatchNormCall call) {
  __shared__ ThreadSums<Real<T>> kept[kThreads];
  BlockTeam<T> team;
  batch_norm_sums_strip<T>(team, call, part_of_block(call), kept);
}

template <class T>
__global__ void __launch_bounds__(kThreads) backward_kernel(const BatchNormCall call) {
  BlockTeam<T> team;
  batch_norm_backward_strip<T>(team, call, part_of_block(call));
}

/// Calls launch(element, grid, call) with an element of the call's type, unless the call has no elements.
template <class Launch>
void for_type(BatchNormCall call, const Launch& launch) {
  if (call.outer == 0) return;
  call.aligned = are_aligned({call.x, call.added, call.y, call.mask, call.d_y, call.d_added, call.d_x},
                             call.inner > 1 ? call.inner : call.channels);
  const dim3 grid(blocks_for(strips_of(call)), blocks_for(batch_norm_parts_on_device(call)));
  for_float_type(call.dtype, [&](auto element) {
    launch(element, grid, call);
    return true;
  });
  cuda_check(cudaGetLastError(), "a kernel of batch normalization");
}

}  // namespace

std::int64_t batch_norm_parts_on_device(const BatchNormCall& call) {
  const std::int64_t rows = kThreads / threads_in_row(call, kThreads);
  const std::int64_t blocks = attribute_of_device(cudaDevAttrMultiProcessorCount) * kBlocksPerMultiprocessor;
  return std::clamp<std::int64_t>(blocks / strips_of(call), 1, (call.outer + rows - 1) / rows);
}

void batch_norm_forward_on_device(const BatchNormCall& call, void* stream) {
  for_type(call, [&](auto element, const dim3& grid, const BatchNormCall& typed) {
    forward_kernel<decltype(element)><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(typed);
  });
}

void batch_norm_sums_on_device(const BatchNormCall& call, void* stream) {
  for_type(call, [&](auto element, const dim3& grid, const BatchNormCall& typed) {
    sums_kernel<decltype(element)><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(typed);
  });
}

void batch_norm_backward_on_device(const BatchNormCall& call, void* stream) {
  for_type(call, [&](auto element, const dim3& grid, const BatchNormCall& typed) {
    backward_kernel<decltype(element)><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(typed);
  });
}

}  // namespace mn::kernels
