/// Lets a C++ compiler take the file with mn's kernels, in which launches_as_calls.sed has turned each launch into a
/// call of launch_kernel. Included before all else.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include <mn/comm/device/ordered_sum.hpp>
#include <mn/comm/device/pack.hpp>

#include "tests/support/stand_in_gpu/capture.hpp"
#include "tests/support/stand_in_gpu/cuda_call.hpp"
#include "tests/support/stand_in_gpu/memory.hpp"

#undef __global__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __launch_bounds__(...)
#define __grid_constant__

// What a kernel knows of its thread.
static thread_local uint3 blockIdx;
static thread_local uint3 threadIdx;
static thread_local dim3 gridDim;
static thread_local dim3 blockDim;

namespace mn::stand_in {

/// Makes the pieces what the stand-in sees of them. False if the GPU does not reach them.
template <class From, class To>
bool reach(PackTable& table) {
  for (std::uint32_t i = 0; i < table.count; ++i) {
    table.from[i] = memory().alias(table.from[i], table.elements[i] * sizeof(From));
    table.to[i] = memory().alias(table.to[i], table.elements[i] * sizeof(To));
    if (table.from[i] == nullptr || table.to[i] == nullptr) return false;
  }
  if (table.norm == nullptr) return true;
  table.norm = reinterpret_cast<const double*>(memory().alias(table.norm, sizeof *table.norm));
  return table.norm != nullptr;
}

/// The same for the operands of a sum.
template <class T>
bool reach(OrderedSum& sum) {
  const std::size_t bytes = sum.count * sizeof(T);
  sum.own = memory().alias(sum.own, bytes);
  sum.received = memory().alias(sum.received, sum.ranks * bytes);
  sum.out = memory().alias(sum.out, bytes);
  return sum.own != nullptr && sum.received != nullptr && sum.out != nullptr;
}

/// Runs all threads of all blocks, one after the other, when the stream comes to it.
template <class Call>
void launch(unsigned blocks, unsigned threads, cudaStream_t stream, bool is_legal, const Call& call) {
  static_cast<void>(cuda_call("cudaLaunchKernel", cudaErrorLaunchOutOfResources, [&] {
    if (blocks == 0 || threads == 0) return cudaErrorInvalidConfiguration;
    const Op op = [=] {
      if (!is_legal) return static_cast<void>(keep(cudaErrorIllegalAddress));
      gridDim.x = blocks;
      blockDim.x = threads;
      for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) call();
      }
    };
    return submit(stream, current_device(), [op] { return op; });
  }));
}

template <class From, class To, class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(PackTable, Parameters...), unsigned blocks, unsigned threads,
                   std::size_t /*shared_bytes*/, cudaStream_t stream, PackTable table, Arguments... arguments) {
  const bool is_legal = reach<From, To>(table);
  launch(blocks, threads, stream, is_legal, [=] { kernel(table, static_cast<Parameters>(arguments)...); });
}

template <class T>
void launch_kernel(void (*kernel)(OrderedSum), unsigned blocks, unsigned threads, std::size_t /*shared_bytes*/,
                   cudaStream_t stream, OrderedSum sum) {
  const bool is_legal = reach<T>(sum);
  launch(blocks, threads, stream, is_legal, [=] { kernel(sum); });
}

}  // namespace mn::stand_in
