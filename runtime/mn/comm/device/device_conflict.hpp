/// Checks, before NCCL starts, whether NCCL can serve the ranks of a group. Without the check NCCL would fail on some
/// ranks, and the remaining ranks would wait forever.
#pragma once

#include <span>
#include <string>

#include <mpi.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// Collective: returns the reason why NCCL cannot serve ranks with these devices, equal on all ranks; empty if it can.
/// Two ranks share a GPU if their hosts (NCCL_HOSTID if set, as in NCCL) and PCI bus addresses are equal.
[[nodiscard]] std::string find_device_conflict(MPI_Comm comm, Device device);
/// The part of find_device_conflict() that needs no communication. `devices` has an entry for each rank: "cpu", or the
/// GPU's host and PCI bus address, for example "n1 0000:1b:00.0".
[[nodiscard]] std::string device_conflict(std::span<const std::string> devices);

/// Not collective: true if the loaded NCCL lets ranks share a GPU (2.30.3 or newer, without
/// NCCL_MULTI_RANK_GPU_ENABLE=0).
[[nodiscard]] bool nccl_shares_gpus();
/// Collective: true if every rank computes on a GPU and has an NCCL that lets ranks share a GPU.
[[nodiscard]] bool nccl_shares_gpus(MPI_Comm comm, Device device);

}  // namespace mn
