/// Sums of gradients on GPUs, for hierarchical, non_cuda_aware and two_dimensional: by NCCL within a node, by MPI
/// between nodes, of device memory if MPI takes it, otherwise of host copies.
///
/// Invariants:
/// 1. Packing, all of NCCL's work and unpacking are enqueued on one stream, and so in one order on all ranks. Only
///    copies to and from the host have streams of their own.
/// 2. Pieces reuse host memory. The copy of a later piece starts after the copy back of the earlier piece, because it
///    waits for NCCL's work on the later piece, which waits for the copy back.
/// 3. The host waits for a stream only through Nccl::wait(), which notices errors of NCCL.
/// 4. MPI knows no streams: device memory goes to MPI after the work on it is done, and later work is enqueued after
///    the messages are done.
///
/// Cost for B bytes on n ranks, m nodes. One node: an NCCL allreduce. Leaders: NCCL reduce and bcast of B, and on the
/// first rank of each node the exchange of B between m ranks. Slices: NCCL reduce_scatter and allgather of B, and on
/// each rank the exchange of B m / n. Host copies: a copy each way, and 16 MiB of page-locked memory on each exchanging
/// rank. Device memory: a kernel for each piece, and at most 16 MiB.
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
  /// Which ranks exchange sums with other nodes: the node's first rank, or each rank its slice.
  enum class Form { kLeaders, kSlices };
  /// The memory that MPI reads and writes.
  enum class Route { kHost, kDevice };

  /// Collective. `comm` is borrowed.
  GpuNodeSum(MPI_Comm comm, const Topology& topology, Device device, std::size_t count_limit, Form form, Route route,
             std::optional<DType> wire);

  /// Collective; returns when the gradients are summed.
  void sum_gradients(std::span<const BufferView> gradients, double scale);

 private:
  class Pieces;
  /// Number of ranks of a node that exchange a slice.
  [[nodiscard]] std::size_t slices() const {
    return form_ == Form::kSlices ? static_cast<std::size_t>(topology_.intra_size) : 1;
  }
  void allreduce(BufferView all, double scale);
  /// Sums elements that MPI has received into device memory.
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
  std::array<CudaStream, 2> from_device_;  // two: the wait for a piece does not include the next
  CudaStream to_device_;
  DevicePacker packer_;
  // last: freeing members that its work uses would wait for the device, and for collectives that others never join
  Nccl nccl_;
};

}  // namespace mn
