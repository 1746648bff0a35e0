/// Known faults of NCCL versions. Jobs warn of them, and mnlaunch --doctor reports them.
#pragma once

#include <string>

namespace mn {

/// The version of the NCCL that this process has loaded, or else of the libnccl.so.2 that dlopen() finds. 22809 stands
/// for 2.28.9; 0 means no NCCL.
[[nodiscard]] int nccl_version() noexcept;

/// Writes a version number as text, such as "2.28.9".
[[nodiscard]] std::string nccl_version_text(int version);

/// Returns a warning such as "NCCL 2.28.7 can hang on large clusters: use NCCL 2.28.9 or newer". Empty if the version
/// has no known faults, and for version 0. The list covers only faults that can affect a training: in starting NCCL, in
/// allreduce and in similar collectives.
[[nodiscard]] std::string nccl_faults(int version);

}  // namespace mn
