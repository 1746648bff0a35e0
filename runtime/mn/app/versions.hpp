/// Lists the versions of a job's libraries at compile time and at run time.
#pragma once

#include <string>

namespace mn::app {

/// Returns the table for --version: torch, CUDA, NCCL, MPI, PMIx and HDF5, as compiled and at run time, or "none".
/// CUDA, NCCL and PMIx are looked up with dlopen, because mn::app is linked with none of the three.
[[nodiscard]] std::string version_table();

}  // namespace mn::app
