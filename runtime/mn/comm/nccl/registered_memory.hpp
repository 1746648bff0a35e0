/// Device memory that NCCL allocates, and that all ranks register as a window of their communicator. NCCL then reduces
/// the memory in place, without copies to memory of its own.
///
/// Invariants:
/// 1. All ranks make the same choice: registered memory if every rank's NCCL has windows (2.27 and newer), and if an
///    allreduce of registered memory is the faster one on the slowest rank.
/// 2. To register memory is collective. Therefore the ranks agree before and after: if one rank fails, all ranks use
///    ordinary memory.
/// 3. A window is closed before its memory is freed, and before the communicator is destroyed.
/// 4. NCCL's functions are found by their names at run time, because an older NCCL lacks them.
///
/// Cost: once per communicator, 26 allreduces of 8 MiB. Source: NCCL User Guide, "User Buffer Registration". These
/// windows have run on a stand-in for NCCL only, on no GPU.
#pragma once

#include <memory>
#include <optional>

#include <mpi.h>

#include <mn/comm/nccl/nccl.hpp>

namespace mn {

class RegisteredMemory {
 public:
  /// `comm` has the ranks of `nccl`, and outlives this object, as `nccl` does.
  RegisteredMemory(MPI_Comm comm, Nccl& nccl);
  /// Closes the windows. Memory that is still in use remains valid.
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  /// Collective: allocates memory, not initialized, and registers it. Returns null if ordinary memory is as fast, or if
  /// a rank cannot register memory (1). The first call measures on `stream`, and rank 0 logs the choice.
  /// MN_NCCL_WINDOWS=on or off chooses without measuring. The memory is freed when the device is idle.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes, const CudaStream& stream);

 private:
  struct Windows;
  [[nodiscard]] bool choose(const CudaStream& stream);
  [[nodiscard]] bool is_faster(std::byte* registered, const CudaStream& stream);
  [[nodiscard]] std::shared_ptr<std::byte> register_new(std::size_t bytes);

  MPI_Comm comm_;
  Nccl& nccl_;
  std::shared_ptr<Windows> windows_;  // shared with the memory that is in use
  std::optional<bool> registers_;     // the choice (1); no value before the first call
};

}  // namespace mn
