/// Sums gradients on GPUs for the backends hierarchical, non_cuda_aware and two_dimensional: NCCL within a node, MPI
/// between nodes. MPI moves device memory or host copies (Route).
///
/// Invariants:
/// 1. Packing, all of NCCL's work and unpacking are enqueued on one stream, so all ranks run them in the same order.
///    Copies to and from the host, and sums of received slices, run on separate streams.
/// 2. A later piece of a buffer reuses the host memory of an earlier piece. NCCL's stream begins to sum the later piece
///    only after the earlier piece is back on the device, and the later piece is copied to the host only after this
///    sum. Therefore the two copies never overlap.
/// 3. The host waits for a stream only through Nccl::wait(), which notices errors of NCCL.
/// 4. MPI does not wait for streams. Therefore the host passes device memory to MPI only after the work on this memory
///    is done, and enqueues later work only after the messages are done.
///
/// Cost for B bytes on n ranks and m nodes. On one node: an NCCL allreduce. Form::kLeaders: NCCL's reduce and bcast of
/// B bytes, and on the first rank of each node an exchange of B bytes between m ranks. Form::kSlices: NCCL's
/// reduce_scatter and allgather of B bytes, and on each rank an exchange of B m / n bytes. Route::kHost: a copy each
/// way and 16 MiB of page-locked memory on each exchanging rank. Route::kDevice: there a kernel for each piece and at
/// most 16 MiB of device memory.
#pragma once

#include <array>
#include <optional>
#include <span>

#include <mn/comm/device/cuda.hpp>
#include <mn/comm/device/device_packer.hpp>
#include <mn/comm/device/device_scratch.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/topology.hpp>
#include <mn/comm/nccl/host_pieces.hpp>
#include <mn/comm/nccl/nccl.hpp>

namespace mn {

class GpuNodeSum {
 public:
  /// Which ranks exchange sums with other nodes: the first rank of each node, or every rank its own slice.
  enum class Form { kLeaders, kSlices };
  /// Which memory MPI reads and writes: copies on the host (kHost), or device memory (kDevice).
  enum class Route { kHost, kDevice };

  /// Collective. Does not own `comm`, which must outlive this object.
  GpuNodeSum(MPI_Comm comm, const Topology& topology, Device device, Form form, Route route, std::optional<DType> wire);

  /// Collective: replaces each gradient by `scale` times its sum over ranks. Blocks.
  void sum_gradients(std::span<const BufferView> gradients, double scale);

 private:
  class Pieces;
  /// Number of slices of a piece, which is also the number of ranks of a node that exchange sums with other nodes.
  [[nodiscard]] std::size_t slices() const {
    return form_ == Form::kSlices ? static_cast<std::size_t>(topology_.intra_size) : 1;
  }
  void allreduce(BufferView all);
  /// Sums elements that MPI has received into device memory, and waits for the sum.
  void sum(const OrderedSum& operands, DType dtype);

  Form form_;
  Route route_;
  Topology topology_;
  Mpi node_;
  Mpi peers_;
  DeviceScratch sum_scratch_;
  std::optional<MessageReducer> between_nodes_;
  std::array<HostPinned, HostPieces::kUnderWay> host_;
  CudaStream stream_;
  CudaStream sum_stream_;
  std::array<CudaStream, 2> from_device_;  // two, so that a wait for a copy does not wait for the next copy
  CudaStream to_device_;
  DevicePacker packer_;
  // Last, so destroyed first. If the memory above were freed while NCCL's work runs, the host would wait for the
  // device, perhaps forever.
  Nccl nccl_;
};

}  // namespace mn
