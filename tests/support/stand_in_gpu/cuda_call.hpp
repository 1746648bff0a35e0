/// What every call of the CUDA runtime has in common: the calling thread's GPU, failures, and the error that is kept.
#pragma once

#include <string_view>

#include <cuda_runtime_api.h>

#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/host_waits.hpp"

namespace mn::stand_in {

/// The calling thread's, as cudaSetDevice left it.
[[nodiscard]] int& current_device();

/// An error of work on the GPU, after which every call returns it and no operation runs; cudaSuccess by default.
[[nodiscard]] cudaError_t context_error();

/// Keeps an error for cudaGetLastError. One that work on the GPU brings about is every later call's too.
cudaError_t keep(cudaError_t code);

/// What cudaGetLastError returns.
[[nodiscard]] cudaError_t& last_error();

/// body(), unless it is the call that must fail: then `failure`.
template <class Body>
cudaError_t cuda_call(const char* name, cudaError_t failure, const Body& body) {
  const bool fails = must_fail(name);
  if (!std::string_view(name).ends_with("Query")) end_queries();
  if (const cudaError_t lost = context_error(); lost != cudaSuccess) return keep(lost);
  return keep(fails ? failure : body());
}

}  // namespace mn::stand_in
