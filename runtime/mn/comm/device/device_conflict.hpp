/// Checks before NCCL starts whether it can serve these ranks with their devices. Without the check NCCL would fail on
/// some ranks and leave the other ranks waiting.
#pragma once

#include <span>
#include <string>

#include <mpi.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// Collective: returns the reason why NCCL cannot serve ranks with these devices, the same text on all ranks; empty if
/// NCCL can serve them. Two ranks share a GPU if their GPUs' hosts and PCI bus addresses are equal. If NCCL_HOSTID is
/// set, its value counts as the host, as it does for NCCL.
[[nodiscard]] std::string find_device_conflict(MPI_Comm comm, Device device);
/// The part of find_device_conflict() that needs no communication. `devices` has an entry for each rank: "cpu", or the
/// GPU's host and PCI bus address, such as "n1 0000:1b:00.0".
[[nodiscard]] std::string device_conflict(std::span<const std::string> devices);

/// Not collective: returns true if the loaded NCCL lets ranks share a GPU. Versions from 2.30.3 on do, unless
/// NCCL_MULTI_RANK_GPU_ENABLE is 0.
[[nodiscard]] bool nccl_shares_gpus();
/// Collective: returns true if every rank computes on a GPU and has an NCCL that lets ranks share a GPU.
[[nodiscard]] bool nccl_shares_gpus(MPI_Comm comm, Device device);

}  // namespace mn
