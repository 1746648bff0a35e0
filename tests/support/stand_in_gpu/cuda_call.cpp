#include "tests/support/stand_in_gpu/cuda_call.hpp"

#include <atomic>

namespace mn::stand_in {
namespace {

std::atomic<cudaError_t> lost_by = cudaSuccess;

}  // namespace

int& current_device() {
  static thread_local int device = 0;
  return device;
}

cudaError_t context_error() { return lost_by; }

cudaError_t& last_error() {
  static thread_local cudaError_t code = cudaSuccess;
  return code;
}

cudaError_t keep(cudaError_t code) {
  if (code == cudaErrorIllegalAddress || code == cudaErrorLaunchFailure) lost_by = code;
  if (code != cudaSuccess && code != cudaErrorNotReady) last_error() = code;
  return code;
}

}  // namespace mn::stand_in
