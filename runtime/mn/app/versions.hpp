/// Lists the versions of a job's libraries at compile time and at run time.
#pragma once

#include <string>

namespace mn::app {

/// Returns the table for --version: torch, CUDA, NCCL, MPI, PMIx and HDF5, each with the versions at compile time and
/// at run time. "none" stands for a library that is not used or not found. CUDA, NCCL and PMIx are looked up with
/// dlopen, so that mn::app is linked with none of the three.
[[nodiscard]] std::string version_table();

}  // namespace mn::app
