/// Gradients of one node reduced where they lie, piece by piece, by whichever rank has time.
///
/// Each rank calls publish() by itself, as backward makes gradients final; all ranks call reduce() at once. A rank that
/// comes to reduce() early takes the pieces that all ranks have published by then: its wait becomes work that the
/// others are spared.
///
/// Invariants:
/// 1. One atomic addition takes a piece, so exactly one rank reduces it.
/// 2. No rank writes to another's buffer before that rank has published it. `published` never falls in a step.
/// 3. After the barrier at the end of reduce() every buffer holds its result, and no rank touches another's buffer
///    until the next publish().
/// 4. Counters are never reset. A step raises the base of `taken` by the number of pieces and of ranks, because each
///    rank takes one index beyond the last piece.
/// 5. Elements are reduced in rank order: whichever rank reduces a piece, the bits are the same.
///
/// Cost for B bytes on n ranks: no copy and no message; one atomic addition for each 64 KiB, and one barrier. All ranks
/// together read n B bytes and write n B.
/// Source: self-scheduling of loops by a shared counter (P. Tang, P.-C. Yew, "Processor self-scheduling for
/// multiple-nested parallel loops", 1986).
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

/// Reduces the buffers that Communicator::share() was given. See the top of this file.
class SharedReducer {
 public:
  /// What the ranks share of their progress: one for each rank in shared memory, zeroed before use.
  struct Control {
    SharedCounter published;                       ///< buffers that are final
    SharedCounter arrivals;                        ///< at the barrier that ends a step
    alignas(64) std::atomic<std::uint32_t> taken;  ///< pieces; rank 0's counts
  };

  /// `buffers` are this rank's; rank r's lie `offsets[r]` bytes further, as this process sees them, with the same
  /// counts and dtypes. `owner` keeps the memory of the controls; `may_spin`: each rank has a CPU. Local, and so is
  /// destruction.
  SharedReducer(std::span<const BufferView> buffers, std::vector<std::ptrdiff_t> offsets,
                std::vector<Control*> controls, int rank, bool may_spin, std::shared_ptr<void> owner);

  /// reduce() counts among `calls`, and has their time-out.
  void record_in(std::shared_ptr<CallCheck> calls) { calls_ = std::move(calls); }
  /// The same on every rank, between steps: reduce() leaves the others alone.
  void reduce_only(std::vector<bool> buffers) { is_reduced_ = std::move(buffers); }
  /// The first `count` buffers are final until reduce(), and other ranks may write to them from now on: never fewer
  /// than before.
  void publish(std::size_t count);
  /// Collective. Every buffer becomes the sum over ranks times `scale`.
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
  std::shared_ptr<CallCheck> calls_;  // null: not recorded
  std::size_t elements_ = 0;
  std::vector<bool> is_reduced_;  // [buffers]
  std::uint32_t buffers_;
  std::vector<std::ptrdiff_t> offsets_;
  std::vector<Control*> controls_;
  std::size_t rank_;
  bool may_spin_;
  std::shared_ptr<void> owner_;
  NodeBarrier barrier_;
  std::uint32_t first_buffer_ = 0;  // what `published` counts from in this step
  std::uint32_t first_piece_ = 0;   // what `taken` counts from
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace mn
