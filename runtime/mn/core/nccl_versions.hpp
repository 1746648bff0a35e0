/// Known faults of NCCL versions. Jobs warn of them, and mnlaunch --doctor reports them.
#pragma once

#include <string>

namespace mn {

/// The version of NCCL as a number, for example 22809 for 2.28.9: of the library that this process has loaded, or else
/// of the libnccl.so.2 that dlopen() finds. 0 if there is no NCCL.
[[nodiscard]] int nccl_version() noexcept;

/// Writes a version number as text, for example "2.28.9".
[[nodiscard]] std::string nccl_version_text(int version);

/// Returns a warning like "NCCL 2.28.7 can hang on large clusters: use NCCL 2.28.9 or newer". Empty for version 0 and
/// for versions without known faults. Only faults that can affect a training are listed: in NCCL's start, in allreduce
/// and in similar collectives.
[[nodiscard]] std::string nccl_faults(int version);

}  // namespace mn
