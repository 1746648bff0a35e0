/// What a job was compiled against and what it runs with.
#pragma once

#include <string>

namespace mn::app {

/// A table for --version: torch, CUDA, NCCL, MPI, PMIx and HDF5, compiled and at run time; "none" where a library is
/// not used or not found. CUDA, NCCL and PMIx are looked for with dlopen, so this links none of them.
[[nodiscard]] std::string version_table();

}  // namespace mn::app
