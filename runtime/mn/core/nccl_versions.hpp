/// Known faults of NCCL versions. Jobs warn of them, and mnlaunch --doctor reports them.
#pragma once

#include <string>

namespace mn {

/// The version of the NCCL that this process has loaded. If the process has not loaded NCCL, the version of the
/// libnccl.so.2 that dlopen() finds. The number 22809 stands for version 2.28.9, and 0 means that there is no NCCL.
[[nodiscard]] int nccl_version() noexcept;

/// Writes a version number as text, for example "2.28.9".
[[nodiscard]] std::string nccl_version_text(int version);

/// Returns a warning like "NCCL 2.28.7 can hang on large clusters: use NCCL 2.28.9 or newer". Empty if the
/// version has no known faults, and for version 0. The list of faults has only those that can affect a training, in the
/// start of NCCL, in allreduce and in similar collectives.
[[nodiscard]] std::string nccl_faults(int version);

}  // namespace mn
