/// What is known to go wrong with versions of NCCL. Jobs warn of it, and mnlaunch --doctor reports it.
#pragma once

#include <string>

namespace mn {

/// The version of the NCCL that this process has loaded, else of the libnccl.so.2 that it would load, as
/// ncclGetVersion() returns it: 22809 is 2.28.9; 0 if there is no NCCL.
[[nodiscard]] int nccl_version() noexcept;

/// "2.28.9".
[[nodiscard]] std::string nccl_version_text(int version);

/// "NCCL 2.28.7 can hang on large clusters: use NCCL 2.28.9 or newer"; empty: nothing is known, or `version` is 0. Only
/// faults that training can meet: of allreduce, of its neighbors, and of starting.
[[nodiscard]] std::string nccl_faults(int version);

}  // namespace mn
