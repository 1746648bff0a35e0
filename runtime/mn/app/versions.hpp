/// Lists the versions of a job's libraries, as the job was compiled and as it runs.
#pragma once

#include <string>

namespace mn::app {

/// Returns the table of --version: the versions of torch, CUDA, NCCL, MPI, PMIx and HDF5 at compile time and at run
/// time. CUDA, NCCL and PMIx are looked up with dlopen, because mn::app is linked with none of the three.
[[nodiscard]] std::string version_table();

}  // namespace mn::app
