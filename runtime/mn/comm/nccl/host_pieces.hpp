/// The schedule by which GPUs of several nodes sum a large buffer, with NCCL within a node and messages between nodes.
/// GpuNodeSum runs the schedule; simulations of clusters run it with times instead of GPUs.
///
/// 1. All ranks cut a buffer into the same pieces, and call collect() and spread() in the same order, because both
///    enqueue calls of NCCL.
/// 2. At most kUnderWay pieces are under way, because collect() of piece k follows spread() of piece k - kUnderWay.
#pragma once

#include <array>
#include <cstddef>

#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/mpi/progress.hpp>

namespace mn {

class HostPieces {
 public:
  static constexpr std::size_t kUnderWay = 4;
  static constexpr std::size_t kBytes = std::size_t{4} << 20;  ///< size of a rank's part: enough for MPI's full speed

  /// The work of one rank's GPU on piece k. A rank exchanges only its own part of the piece with other nodes. Only
  /// part() waits for the GPU.
  class Device {
   public:
    virtual ~Device() = default;
    /// Enqueues the sum over the node's ranks, and then a copy of the rank's part to the memory that MPI reads.
    virtual void collect(std::size_t k) = 0;
    /// Number of elements of the rank's part of piece k; 0 if only other ranks exchange this piece.
    [[nodiscard]] virtual std::size_t part_elements(std::size_t k) = 0;
    /// Blocks until MPI may read and write the rank's part of piece k, and returns the part.
    [[nodiscard]] virtual std::byte* part(std::size_t k) = 0;
    /// Enqueues a copy of the rank's part back, and then the piece's distribution to all ranks of the node.
    virtual void spread(std::size_t k) = 0;
  };

  /// Collective. `between_nodes` sums this rank's parts with the same parts of other nodes, and is null if this rank
  /// has no parts. A part has at most `most` elements.
  static void allreduce(std::size_t pieces, std::size_t most, DType dtype, MessageReducer* between_nodes,
                        Device& device) {
    const PendingRequest messages;  // while it lives, waits for the GPU let MPI move messages
    std::array<MessageReducer::Piece, kUnderWay> exchanged;
    const auto has_part = [&](std::size_t k) { return between_nodes != nullptr && device.part_elements(k) > 0; };
    in_pipeline(
        pieces, [&](std::size_t k) { device.collect(k); },
        [&](std::size_t k) {
          if (!has_part(k)) return;
          exchanged[k % kUnderWay] = between_nodes->begin(device.part(k), device.part_elements(k), k, most, dtype);
        },
        [&](std::size_t k) {
          if (has_part(k)) between_nodes->reduce(exchanged[k % kUnderWay], {dtype, ReduceOp::kSum, 1.0});
        },
        [&](std::size_t k) {
          if (has_part(k)) MessageReducer::finish(exchanged[k % kUnderWay]);
          device.spread(k);
        });
  }
};

}  // namespace mn
