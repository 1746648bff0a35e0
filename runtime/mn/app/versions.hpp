/// Lists the versions of a job's libraries, as the job was compiled and as it runs.
#pragma once

#include <string>

namespace mn::app {

/// Returns the table that --version prints. For torch, CUDA, NCCL, MPI, PMIx and HDF5, it has the version at compile
/// time and the version at run time, or "none". CUDA, NCCL and PMIx are looked up with dlopen, because mn::app is
/// linked with none of the three.
[[nodiscard]] std::string version_table();

}  // namespace mn::app
