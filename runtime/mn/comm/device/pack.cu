// The kernels of pack_on_device() and sum_on_device().
#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include <mn/comm/device/cuda_check.hpp>
#include <mn/comm/device/ordered_sum.hpp>
#include <mn/comm/device/pack.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

// All threads read the table directly from the kernel's argument. GPUs before Volta do not know __grid_constant__.
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

/// Returns null unless `from` and `to` are float dtypes.
Launch find_launch(DType from, DType to) {
  return for_float_type(from, [&](auto source) {
    return for_float_type(to, [](auto target) -> Launch { return launch<decltype(source), decltype(target)>; });
  });
}

template <class T, class Key>
Launch launch_keys(bool to_keys) {
  return to_keys ? launch<T, Key> : launch<Key, T>;
}

/// Returns the dtype of the integer keys of the float dtype `dtype`.
DType key_type(DType dtype) { return dtype == DType::kFloat64 ? DType::kInt64 : DType::kInt32; }

Launch find_key_launch(DType dtype, bool to_keys) {
  const Launch found = for_float_type(dtype, [&](auto element) {
    using T = decltype(element);
    return launch_keys<T, std::conditional_t<std::is_same_v<T, double>, DoubleKey, FloatKey>>(to_keys);
  });
  if (found == nullptr) {
    throw ArgumentError("elements of " + std::string(name_of(dtype)) + " have no keys: only floats do");
  }
  return found;
}

/// Returns the pieces that are not empty, each cut into pieces of at most kPackElements elements.
std::vector<PackPiece> cut(std::span<const PackPiece> pieces, DType from, DType to) {
  std::vector<PackPiece> some;
  for (PackPiece piece : pieces) {
    while (piece.count > 0) {
      const std::size_t count = std::min(piece.count, kPackElements);
      some.push_back({piece.from, piece.to, count});
      piece = {static_cast<const std::byte*>(piece.from) + count * size_of(from),
               static_cast<std::byte*>(piece.to) + count * size_of(to), piece.count - count};
    }
  }
  return some;
}

void launch_all(Launch launch_kernel, std::span<const PackPiece> pieces, double scale, void* stream,
                const double* norm = nullptr) {
  for (std::size_t first = 0; first < pieces.size(); first += kPackPieces) {
    const auto some = pieces.subspan(first, std::min(kPackPieces, pieces.size() - first));
    launch_kernel(make_pack_table(some, norm), scale, static_cast<cudaStream_t>(stream));
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
  launch_all(launch_kernel, cut(pieces, from, to), scale, stream);
}

void limit_norm_on_device(std::span<const PackPiece> pieces, DType dtype, const double* norm, double max_norm,
                          void* stream) {
  launch_all(find_launch(dtype, dtype), cut(pieces, dtype, dtype), max_norm, stream, norm);
}

void sum_on_device(const OrderedSum& sum, DType dtype, void* stream) {
  const bool is_float = for_float_type(dtype, [&](auto element) {
    launch_sum<decltype(element)>(sum, static_cast<cudaStream_t>(stream));
    return true;
  });
  if (!is_float) {
    throw ArgumentError("elements of " + std::string(name_of(dtype)) + " are not summed on a GPU: only floats are");
  }
  cuda_check(cudaGetLastError(), "the kernel that sums what MPI has received");
}

void keys_on_device(const PackPiece& piece, DType dtype, double sign, void* stream) {
  launch_all(find_key_launch(dtype, true), cut({&piece, 1}, dtype, key_type(dtype)), sign, stream);
}

void values_of_keys_on_device(const PackPiece& piece, DType dtype, double sign, void* stream) {
  launch_all(find_key_launch(dtype, false), cut({&piece, 1}, key_type(dtype), dtype), sign, stream);
}

}  // namespace mn
