/// Checks the results of calls of the CUDA runtime, in builds with CUDA.
#pragma once

#include <cstddef>
#include <source_location>
#include <string_view>

#include <cuda_runtime_api.h>

namespace mn {

/// Throws CommError with the operation, its size, the device and the source line unless `code` is cudaSuccess.
void cuda_check(cudaError_t code, std::string_view operation, std::size_t bytes = 0,
                std::source_location where = std::source_location::current());

}  // namespace mn
