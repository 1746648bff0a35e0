/// The schedule by which GPUs of several nodes sum a large buffer: NCCL within a node, messages between nodes.
/// GpuNodeSum runs it on all ranks at once; simulations of clusters run it with times instead of GPUs.
///
/// 1. All ranks cut a buffer into equal pieces, and call collect() and spread(), which enqueue NCCL's calls, in one
///    order.
/// 2. kUnderWay pieces are under way: collect() of a piece follows spread() of the piece kUnderWay before.
#pragma once

#include <array>
#include <cstddef>

#include <mn/comm/messages/message_reducer.hpp>
#include <mn/comm/mpi/progress.hpp>

namespace mn {

class HostPieces {
 public:
  static constexpr std::size_t kUnderWay = 4;
  static constexpr std::size_t kBytes = std::size_t{4} << 20;  ///< bytes of a rank's part: enough for full speed

  /// A GPU's work on piece k. Only part() waits for the GPU.
  class Device {
   public:
    virtual ~Device() = default;
    /// Enqueues the sum over the node, and the copy of the rank's part to memory for MPI.
    virtual void collect(std::size_t k) = 0;
    /// Elements of the rank's part; 0 if other ranks exchange the piece.
    [[nodiscard]] virtual std::size_t part_elements(std::size_t k) = 0;
    /// Returns the rank's part when MPI may read and write it.
    [[nodiscard]] virtual std::byte* part(std::size_t k) = 0;
    /// Enqueues the copy of the part back, and its distribution in the node.
    virtual void spread(std::size_t k) = 0;
  };

  /// Collective. `between_nodes` sums the rank's parts, of at most `most` elements; null if the rank has none.
  static void allreduce(std::size_t pieces, std::size_t most, DType dtype, MessageReducer* between_nodes,
                        Device& device) {
    const PendingRequest messages;  // waits for the GPU let MPI move the messages
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
