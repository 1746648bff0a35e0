/// Whether NCCL can serve some ranks with their devices: otherwise it would fail on some ranks and leave the others
/// waiting.
#pragma once

#include <span>
#include <string>

#include <mpi.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// Collective: why NCCL cannot serve ranks with these devices, in equal words on all ranks; empty if NCCL can. Two
/// ranks share a GPU if host and address on the PCI bus are equal; NCCL_HOSTID, if set, replaces the host, as in NCCL.
[[nodiscard]] std::string find_device_conflict(MPI_Comm comm, Device device);
/// find_device_conflict() of the devices by rank: "cpu", or host and address, as "n1 0000:1b:00.0". Pure.
[[nodiscard]] std::string device_conflict(std::span<const std::string> devices);

/// Whether the NCCL in use lets ranks share a GPU: from 2.30.3 on, unless NCCL_MULTI_RANK_GPU_ENABLE is 0. Local.
[[nodiscard]] bool nccl_shares_gpus();
/// Collective: whether every rank computes on a GPU and has an NCCL that lets ranks share a GPU.
[[nodiscard]] bool nccl_shares_gpus(MPI_Comm comm, Device device);

}  // namespace mn
