/// Known faults of NCCL versions. Jobs warn of them, and mnlaunch --doctor reports them.
#pragma once

#include <string>

namespace mn {

/// Version of the NCCL in this process, else of the libnccl.so.2 that dlopen() finds: 22809 is 2.28.9. 0 without NCCL.
[[nodiscard]] int nccl_version() noexcept;

/// "2.28.9".
[[nodiscard]] std::string nccl_version_text(int version);

/// A warning such as "NCCL 2.28.7 can hang on large clusters: use NCCL 2.28.9 or newer"; empty without known faults,
/// and for version 0. Only faults that training can meet: in starting, in allreduce and in similar collectives.
[[nodiscard]] std::string nccl_faults(int version);

}  // namespace mn
