// The kernels of pack_on_device() and sum_on_device().
#include <algorithm>
#include <string>
#include <vector>

#include <mn/comm/device/cuda_check.hpp>
#include <mn/comm/device/ordered_sum.hpp>
#include <mn/comm/device/pack.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

// Leaves the table in the launch's argument. GPUs before Volta have no such memory: each thread may copy the table.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#define MN_GRID_CONSTANT
#else
#define MN_GRID_CONSTANT __grid_constant__
#endif

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;  // 2048 threads: all that a multiprocessor holds

template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    pack_kernel(const MN_GRID_CONSTANT PackTable table, PackMath<From, To> scale) {
  pack_thread<From, To>(table, scale, blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
}

template <class T>
__global__ void __launch_bounds__(kThreads) sum_kernel(const OrderedSum sum) {
  sum_thread<T>(sum, std::size_t{blockIdx.x} * blockDim.x + threadIdx.x, std::size_t{gridDim.x} * blockDim.x);
}

int most_blocks() {
  int device = 0;
  int multiprocessors = 0;
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda_check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  return multiprocessors * kBlocksPerMultiprocessor;
}

template <class From, class To>
void launch(const PackTable& table, double scale, cudaStream_t stream) {
  const unsigned blocks = std::min(table.chunks(), static_cast<std::uint32_t>(most_blocks()));
  pack_kernel<From, To><<<blocks, kThreads, 0, stream>>>(table, static_cast<PackMath<From, To>>(scale));
}

template <class T>
void launch_sum(const OrderedSum& sum, cudaStream_t stream) {
  const std::size_t blocks = std::min((sum.count + kThreads - 1) / kThreads, static_cast<std::size_t>(most_blocks()));
  sum_kernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(sum);
}

using Launch = void (*)(const PackTable&, double, cudaStream_t);

template <class From>
Launch launch_to(DType to) {
  switch (to) {
    case DType::kFloat16:
      return launch<From, Float16>;
    case DType::kBFloat16:
      return launch<From, BFloat16>;
    case DType::kFloat32:
      return launch<From, float>;
    case DType::kFloat64:
      return launch<From, double>;
    default:
      return nullptr;
  }
}

Launch find_launch(DType from, DType to) {
  switch (from) {
    case DType::kFloat16:
      return launch_to<Float16>(to);
    case DType::kBFloat16:
      return launch_to<BFloat16>(to);
    case DType::kFloat32:
      return launch_to<float>(to);
    case DType::kFloat64:
      return launch_to<double>(to);
    default:
      return nullptr;
  }
}

template <class T, class Key>
Launch launch_keys(bool to_keys) {
  return to_keys ? launch<T, Key> : launch<Key, T>;
}

Launch find_key_launch(DType dtype, bool to_keys) {
  switch (dtype) {
    case DType::kFloat16:
      return launch_keys<Float16, FloatKey>(to_keys);
    case DType::kBFloat16:
      return launch_keys<BFloat16, FloatKey>(to_keys);
    case DType::kFloat32:
      return launch_keys<float, FloatKey>(to_keys);
    case DType::kFloat64:
      return launch_keys<double, DoubleKey>(to_keys);
    default:
      throw ArgumentError("elements of " + std::string(name_of(dtype)) + " have no keys: only floats do");
  }
}

void launch_all(Launch launch_kernel, std::span<const PackPiece> pieces, double scale, void* stream) {
  std::vector<PackPiece> some;
  std::copy_if(pieces.begin(), pieces.end(), std::back_inserter(some), [](const PackPiece& p) { return p.count > 0; });
  for (std::size_t first = 0; first < some.size(); first += kPackPieces) {
    const std::size_t count = std::min(kPackPieces, some.size() - first);
    launch_kernel(make_pack_table({some.data() + first, count}), scale, static_cast<cudaStream_t>(stream));
    cuda_check(cudaGetLastError(), "the kernel that packs tensors");
  }
}

}  // namespace

void pack_on_device(std::span<const PackPiece> pieces, DType from, DType to, double scale, void* stream) {
  const Launch launch_kernel = find_launch(from, to);
  if (launch_kernel == nullptr) {
    throw ArgumentError("tensors of " + std::string(name_of(from)) + " can't be packed as " + std::string(name_of(to)) +
                        ": only floats can");
  }
  launch_all(launch_kernel, pieces, scale, stream);
}

void sum_on_device(const OrderedSum& sum, DType dtype, void* stream) {
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  switch (dtype) {
    case DType::kFloat16:
      launch_sum<Float16>(sum, cuda_stream);
      break;
    case DType::kBFloat16:
      launch_sum<BFloat16>(sum, cuda_stream);
      break;
    case DType::kFloat32:
      launch_sum<float>(sum, cuda_stream);
      break;
    case DType::kFloat64:
      launch_sum<double>(sum, cuda_stream);
      break;
    default:
      throw ArgumentError("elements of " + std::string(name_of(dtype)) + " are not summed on a GPU: only floats are");
  }
  cuda_check(cudaGetLastError(), "the kernel that sums what MPI has received");
}

void keys_on_device(const PackPiece& piece, DType dtype, double sign, void* stream) {
  launch_all(find_key_launch(dtype, true), {&piece, 1}, sign, stream);
}

void values_of_keys_on_device(const PackPiece& piece, DType dtype, double sign, void* stream) {
  launch_all(find_key_launch(dtype, false), {&piece, 1}, sign, stream);
}

}  // namespace mn
