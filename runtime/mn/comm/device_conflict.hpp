/// Whether every rank of a group has a GPU of its own, found out before NCCL is asked.
#pragma once

#include <span>
#include <string>

#include <mpi.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// Collective: why NCCL can't serve ranks with these devices, the same words on all of them; empty if it can. NCCL
/// tells GPUs apart by host and place on the PCI bus, and NCCL_HOSTID overrides the host: so does this.
[[nodiscard]] std::string find_device_conflict(MPI_Comm comm, Device device);

/// The same from what each rank says of its device: "cpu", or the host and the place, "n1 0000:1b:00.0".
[[nodiscard]] std::string device_conflict(std::span<const std::string> devices);

}  // namespace mn
