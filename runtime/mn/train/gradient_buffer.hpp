/// The gradients of a parameter list in one flat buffer, and what is known of them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/train/flat_buffer.hpp>
#include <mn/train/ready_hooks.hpp>

namespace mn {

/// A backward that finds no gradient makes one of its own, which is copied here as soon as it is there, and is a tensor
/// over its piece of the buffer from then on. That spares the zeroing, and reads what the cache still holds. Which
/// gradients this rank has, and its weight, travel in the buffer's tail with the gradients. When the buffer goes, the
/// gradients stay, in memory of their own (release()).
class GradientBuffer {
 public:
  GradientBuffer() = default;
  /// Collective. Gradients that exist already count as this step's.
  GradientBuffer(std::vector<at::Tensor> parameters, Communicator& comm, std::span<const std::size_t> order = {});
  ~GradientBuffer() { release(); }
  GradientBuffer(GradientBuffer&&) noexcept = default;
  GradientBuffer& operator=(GradientBuffer&& other) noexcept;

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] const FlatBuffer& flat() const noexcept { return flat_; }
  [[nodiscard]] FlatBuffer& flat() noexcept { return flat_; }
  /// Elements of the tail, for other buffers of the same layout.
  [[nodiscard]] std::size_t tail_count() const noexcept { return kNumbers + parameters_.size(); }

  /// Every gradient becomes None.
  void clear();

  /// Brings gradients that still live elsewhere into the buffer, zeros where there are none, multiplies by `weight` if
  /// it isn't 1, and fills the tail: the buffer is then ready to be reduced. `disturbed` tells the other ranks through
  /// the tail.
  void collect(double weight, bool disturbed = false);
  /// Whether a rank was disturbed; `reduced` holds a reduced tail.
  [[nodiscard]] static bool disturbed_anywhere(const FlatBuffer& reduced);

  /// After `reduced` (this buffer's memory, or another of the same layout) became the mean over ranks of what collect()
  /// left: gradients become Σ wᵢgᵢ / Σ wᵢ, viewing `reduced`, and None where no rank wrote one. False if all weights
  /// are 0: there is no mean then.
  [[nodiscard]] bool finish(FlatBuffer& reduced);
  [[nodiscard]] bool finish() { return finish(flat_); }

  /// Gives each gradient that lies here, or in the `reduced` that finish() took, memory of its own. Local. Only
  /// finish() may follow, with another buffer as `reduced`.
  void release() noexcept;

 private:
  // The tail: this rank's weight, 1 if it was disturbed, then 1 for each gradient that this rank has.
  static constexpr std::size_t kNumbers = 2;

  bool collect_one(std::size_t i);

  std::vector<at::Tensor> parameters_;
  FlatBuffer flat_;
  std::vector<at::Tensor> means_;      // of the buffer that finish() took
  std::unique_ptr<ReadyHooks> hooks_;  // they know the buffer by a copy: it can move
};

}  // namespace mn
