/// Sums of gradients within a node by NCCL, between nodes by MPI: from GPU to GPU where it takes device memory, else
/// through the host.
///
/// The backends hierarchical, non_cuda_aware and two_dimensional on GPUs call it, on all ranks at once.
///
/// Invariants:
/// 1. Packing, all of NCCL's work and unpacking are enqueued on one stream, and so in the same order on all ranks. Only
///    copies to and from the host have streams of their own.
/// 2. A piece's memory on the host is written by the copy of another piece only after the copy back from it: that
///    stream waits for NCCL's work on the later piece, which waits for the copy back.
/// 3. The host waits for a stream through Nccl::wait() alone, which notices errors of NCCL.
/// 4. MPI knows no streams: it is given device memory whose work is done, and what follows it is enqueued when its
///    messages are done.
///
/// Cost for B bytes on n ranks, m nodes: on one node, an NCCL allreduce. Leaders: NCCL reduce and bcast of B, and on
/// the first rank of each node the exchange of B between m ranks. Slices: NCCL reduce_scatter and allgather of B, and
/// on each rank the exchange of B m / n. Through the host: a copy each way, and page-locked memory of 16 MiB for each
/// rank that exchanges. From GPU to GPU: a kernel for each piece, and device memory of at most 16 MiB.
#pragma once

#include <array>
#include <memory>
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
  /// Who talks to the other nodes: the node's first rank, or each rank for its slice.
  enum class Form { kLeaders, kSlices };
  /// Which memory MPI is given.
  enum class Route { kHost, kDevice };

  /// Collective. `comm` is borrowed.
  GpuNodeSum(MPI_Comm comm, const Topology& topology, Device device, std::size_t count_limit, Form form, Route route,
             std::optional<DType> wire);

  /// Collective; returns when the gradients are summed.
  void allreduce_grad(std::span<const BufferView> gradients, double scale);

 private:
  class Pieces;
  /// Ranks of a node that have a part.
  [[nodiscard]] std::size_t slices() const {
    return form_ == Form::kSlices ? static_cast<std::size_t>(topology_.intra_size) : 1;
  }
  void allreduce(BufferView all, double scale);
  /// Sums what MPI has received into device memory.
  void sum(const OrderedSum& operands, DType dtype);

  Form form_;
  Route route_;
  Topology topology_;
  std::size_t count_limit_;
  Mpi node_;
  Mpi peers_;
  DeviceScratch sum_scratch_;
  std::optional<MessageReducer> between_nodes_;
  std::array<HostPinned, HostPieces::kUnderWay> host_;
  CudaStream stream_;
  CudaStream sum_stream_;
  std::array<CudaStream, 2> from_device_;  // two, so that a wait for one piece is not one for the next
  CudaStream to_device_;
  DevicePacker packer_;
  Nccl nccl_;  // last: freeing what its calls use waits for the device, and so for a collective that others never join
};

}  // namespace mn
