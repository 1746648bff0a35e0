/// Device memory that NCCL allocates, and that all ranks register as a window of their communicator. NCCL then reduces
/// the memory in place, without copies.
///
/// Invariants:
/// 1. All ranks make the same choice. They choose registered memory if every rank's NCCL has windows (2.27 and newer)
///    and if, on the slowest rank, an allreduce of registered memory is faster than an allreduce of ordinary memory.
/// 2. All ranks must register memory together. Before and after this step the ranks compare their success. If one rank
///    fails, all ranks use ordinary memory.
/// 3. A window is closed before its memory is freed, and before the communicator is destroyed.
/// 4. NCCL's functions are found by their names at run time, because an older NCCL lacks them.
///
/// Cost: once per communicator, 26 allreduces of 8 MiB. Source: NCCL User Guide, "User Buffer Registration". This code
/// has run only with a stand-in for NCCL, never on a GPU.
#pragma once

#include <memory>
#include <optional>

#include <mpi.h>

#include <mn/comm/nccl/nccl.hpp>

namespace mn {

class RegisteredMemory {
 public:
  /// `comm` must have the same ranks as `nccl`. Both must outlive this object.
  RegisteredMemory(MPI_Comm comm, Nccl& nccl);
  /// Closes the windows. Memory that is still in use remains valid.
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  /// Collective: allocates and registers uninitialized memory. Null if ordinary memory is as fast, or if a rank cannot
  /// register memory (invariant 1). The first call measures both kinds of memory on `stream`, and rank 0 logs the
  /// choice. If MN_NCCL_WINDOWS is "on" or "off", this setting decides without a measurement. The memory is freed when
  /// the device is idle.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes, const CudaStream& stream);

 private:
  struct Windows;
  [[nodiscard]] bool choose(const CudaStream& stream);
  [[nodiscard]] bool is_faster(std::byte* registered, const CudaStream& stream);
  [[nodiscard]] std::shared_ptr<std::byte> register_new(std::size_t bytes);

  MPI_Comm comm_;
  Nccl& nccl_;
  std::shared_ptr<Windows> windows_;  // shared with the memory that is in use
  std::optional<bool> registers_;     // no value before the first call
};

}  // namespace mn
