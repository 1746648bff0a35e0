// Each column of blocks in the grid works on one tile of the matrix; the blocks of a column share the tile's rows.
#include <mn/kernels/device_team.hpp>
#include <mn/kernels/gelu_backward_tile.hpp>
#include <mn/kernels/launch.hpp>

namespace mn::kernels {
namespace {

constexpr int kThreads = kTileThreads * kTileRows;
constexpr std::int64_t kBlocksPerMultiprocessor = 8;

template <class T>
__global__ void __launch_bounds__(kThreads) backward_kernel(const GeluCall call) {
  __shared__ Real<T> sums[kTileWidth * kTileRows];
  BlockTeam<T> team;
  gelu_backward_tile<T>(team, call, blockIdx.x, blockIdx.y, sums);
}

std::int64_t tiles_of(const GeluCall& call) { return (call.width + kTileWidth - 1) / kTileWidth; }

}  // namespace

std::int64_t gelu_partials_on_device(const GeluCall& call) {
  const std::int64_t blocks = attribute_of_device(cudaDevAttrMultiProcessorCount) * kBlocksPerMultiprocessor;
  const std::int64_t most = (call.rows + kTileRows - 1) / kTileRows;
  return std::min(std::max<std::int64_t>(blocks / tiles_of(call), 1), most);
}

void gelu_backward_on_device(const GeluCall& given, void* stream) {
  GeluCall call = given;
  call.aligned = are_aligned({call.x, call.d_y, call.d_x}, call.width);
  const dim3 blocks(blocks_for(tiles_of(call)), blocks_for(call.parts));
  for_float_type(call.dtype, [&](auto element) {
    backward_kernel<decltype(element)><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(call);
    return true;
  });
  cuda_check(cudaGetLastError(), "the kernel of GELU's backward");
}

}  // namespace mn::kernels
