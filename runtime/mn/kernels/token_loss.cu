// One block of threads works on each row.
#include <mn/kernels/device_team.hpp>
#include <mn/kernels/launch.hpp>
#include <mn/kernels/token_loss_row.hpp>

namespace mn::kernels {
namespace {

constexpr int kMaxThreads = 1024;
// In a data center's GPU two blocks fit into one multiprocessor if a thread has at most 32 registers. Multiprocessors
// of other GPUs hold fewer threads.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
constexpr int kBlocks = 2;
#else
constexpr int kBlocks = 1;
#endif
constexpr std::size_t kReducedBytes = 1024;  // shared memory for BlockTeam::reduce()

template <class T>
__global__ void __launch_bounds__(kMaxThreads) weigh_kernel(const TokenLossCall call) {
  BlockTeam<T> team;
  weigh_rows<Real<T>>(team, call);
}

template <class T, bool kKeep>
__global__ void __launch_bounds__(kMaxThreads, sizeof(T) == 2 ? kBlocks : 1) loss_kernel(const TokenLossCall call) {
  extern __shared__ uint4 shared[];
  BlockTeam<T> team;
  Vector<T>* const kept = kKeep ? reinterpret_cast<Vector<T>*>(shared) : nullptr;
  for (std::int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) token_loss_row<T>(team, call, row, kept);
}

template <class T>
__global__ void __launch_bounds__(kMaxThreads) scale_kernel(const ScaleRowsCall call) {
  BlockTeam<T> team;
  for (std::int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) scale_row<T>(team, call, row);
}

/// How many vectors cover a row of `count` elements, wherever the row begins.
template <class T>
std::int64_t max_vectors(std::int64_t count) {
  return (count + 2 * Row<T>::kWidth - 2) / Row<T>::kWidth;
}

template <class T>
void launch_loss(const TokenLossCall& call, cudaStream_t stream) {
  weigh_kernel<T><<<1, threads_for(call.rows, kMaxThreads), 0, stream>>>(call);
  const std::int64_t vectors = max_vectors<T>(call.vocabulary);
  const unsigned threads = threads_for(vectors, kMaxThreads);
  const std::size_t bytes = static_cast<std::size_t>(vectors * kVectorBytes);
  if (!call.gradient || bytes > max_shared_bytes(kReducedBytes)) {
    loss_kernel<T, false><<<blocks_for(call.rows), threads, 0, stream>>>(call);
  } else {
    allow_shared_bytes(loss_kernel<T, true>, bytes);
    loss_kernel<T, true><<<blocks_for(call.rows), threads, bytes, stream>>>(call);
  }
}

}  // namespace

void token_loss_on_device(const TokenLossCall& call, void* stream) {
  if (call.rows == 0) return;
  for_float_type(call.dtype, [&](auto element) {
    launch_loss<decltype(element)>(call, static_cast<cudaStream_t>(stream));
    return true;
  });
  cuda_check(cudaGetLastError(), "the kernel of the token loss");
}

void scale_rows_on_device(const ScaleRowsCall& call, void* stream) {
  if (call.rows == 0 || call.columns == 0) return;
  for_float_type(call.dtype, [&](auto element) {
    using T = decltype(element);
    const unsigned threads = threads_for(max_vectors<T>(call.columns), 512);
    const auto blocks = static_cast<std::int64_t>(attribute_of_device(cudaDevAttrMultiProcessorCount)) * 4;
    scale_kernel<T><<<blocks_for(std::min(call.rows, blocks)), threads, 0, static_cast<cudaStream_t>(stream)>>>(call);
    return true;
  });
  cuda_check(cudaGetLastError(), "the kernel that scales rows");
}

}  // namespace mn::kernels
