/// Gradients of one node reduced where they lie, piece by piece, by whichever rank has time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <mn/comm/node_barrier.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// A rank that comes to reduce() before the others takes the pieces that all ranks have published meanwhile, so that
/// its wait is work the others need not do. Which rank reduces a piece changes nothing in the result: elements are
/// reduced in rank order.
class SharedReducer {
 public:
  /// What the ranks tell each other, one for each in shared memory, zeroed before use.
  struct Control {
    SharedCounter published;
    SharedCounter arrivals;
    alignas(64) std::atomic<std::uint32_t> taken;  ///< pieces; rank 0's counts
  };

  /// `buffers` are this rank's; rank r's lie `places[r]` bytes further, as this process sees them, with the same counts
  /// and dtypes. `owner` keeps the memory of the controls.
  SharedReducer(std::span<const BufferView> buffers, std::vector<std::ptrdiff_t> places, std::vector<Control*> controls,
                int rank, std::shared_ptr<void> owner);

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
  void reduce_piece(const Piece& piece, double scale);

  std::vector<Piece> pieces_;
  std::uint32_t buffers_;
  std::vector<std::ptrdiff_t> places_;
  std::vector<Control*> controls_;
  std::size_t rank_;
  std::shared_ptr<void> owner_;
  NodeBarrier barrier_;
  std::uint32_t nothing_ = 0;      // what `published` counts from in this reduction
  std::uint32_t first_piece_ = 0;  // what `taken` counts from
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace mn
