/// Reduces the gradients of one node's ranks in place, piece by piece. During the backward pass each rank publishes its
/// gradients that are final. Later all ranks call reduce(), in which each rank takes the next piece again and again. A
/// rank that enters reduce() early already reduces pieces that all ranks have published, so slower ranks have less
/// work.
///
/// Invariants:
/// 1. A rank takes a piece by one atomic addition, so exactly one rank reduces each piece.
/// 2. No rank writes to a different rank's buffer before its owner has published it. Within a step `published` never
///    falls.
/// 3. After the barrier at the end of reduce() every buffer holds its result, and no rank touches a different rank's
///    buffer until the next publish().
/// 4. Counters are never reset. In each step every rank stops when it takes an index beyond the last piece, so `taken`
///    grows by the number of pieces plus the number of ranks.
/// 5. Elements are reduced in rank order, so the result does not depend on which rank reduces a piece.
///
/// Cost for B bytes on n ranks: no copy, no message; one atomic addition for each 64 KiB, and one barrier. All ranks
/// together read n B bytes and write n B bytes. Source: self-scheduling of loops by a shared counter (P. Tang, P.-C.
/// Yew, "Processor self-scheduling for multiple-nested parallel loops", 1986).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <mn/comm/node/node_barrier.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class CallCheck;

/// Reduces the buffers that Communicator::share() was given.
class SharedReducer {
 public:
  /// One rank's counters in shared memory, which tell how far the rank has come in a step. Zero the memory before use.
  struct Control {
    SharedCounter published;                       ///< number of buffers that are final
    SharedCounter arrivals;                        ///< for the barrier at the end of a step
    alignas(64) std::atomic<std::uint32_t> taken;  ///< number of pieces taken by all ranks; only rank 0's is used
  };

  /// `buffers` are the calling rank's buffers. In the calling process the buffers of rank r lie `offsets[r]` bytes
  /// after them, with equal counts and dtypes. `owner` keeps the memory of `controls` alive. `may_spin` is true if each
  /// rank has a CPU of its own. Neither construction nor destruction is collective.
  SharedReducer(std::span<const BufferView> buffers, std::vector<std::ptrdiff_t> offsets,
                std::vector<Control*> controls, int rank, bool may_spin, std::shared_ptr<void> owner);

  /// Records each later reduce() as a call of the communicator of `calls`, with the time-out of this communicator.
  void record_in(std::shared_ptr<CallCheck> calls) { calls_ = std::move(calls); }
  /// From now on reduce() skips every buffer whose flag in `buffers` is false. Call this function between steps, with
  /// equal flags on every rank.
  void reduce_only(std::vector<bool> buffers) { is_reduced_ = std::move(buffers); }
  /// Declares the first `count` buffers final: other ranks may now write to them. Within a step `count` must not fall.
  void publish(std::size_t count);
  /// Collective: replaces every buffer by `scale` times its sum over ranks.
  void reduce(double scale);

 private:
  struct Piece {
    std::size_t buffer;
    BufferView own;
  };
  [[nodiscard]] std::uint32_t take();
  void reduce_pieces(double scale);
  void reduce_piece(const Piece& piece, double scale);

  std::vector<Piece> pieces_;
  std::shared_ptr<CallCheck> calls_;  // null: calls are not recorded
  std::size_t elements_ = 0;
  std::vector<bool> is_reduced_;  // false: reduce() skips the buffer
  std::uint32_t buffers_;
  std::vector<std::ptrdiff_t> offsets_;
  std::vector<Control*> controls_;
  std::size_t rank_;
  bool may_spin_;
  std::shared_ptr<void> owner_;
  NodeBarrier barrier_;
  std::uint32_t first_buffer_ = 0;  // `published` at the beginning of the step
  std::uint32_t first_piece_ = 0;   // `taken` at the beginning of the step
  std::vector<const void*> inputs_ = std::vector<const void*>(offsets_.size());
  std::vector<void*> outputs_ = std::vector<void*>(offsets_.size());
};

}  // namespace mn
