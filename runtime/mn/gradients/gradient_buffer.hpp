/// The gradients of a list of parameters in one flat buffer, from the backward that makes them to the reduced mean.
///
/// A backward that finds no gradient makes one of its own. A hook copies it into the buffer at once, while the cache
/// still holds it, and the parameter's gradient is a view of the buffer from then on: no zeroing pass is needed.
/// (1) A gradient is None, the buffer's view, or a foreign tensor (sparse, with a graph, set by hand); collect() copies
///     the foreign ones in.
/// (2) The buffer's tail carries this rank's weight, whether it was disturbed, and which gradients it has. Reduced with
///     the gradients, every rank learns what the others have, so that all update the same parameters.
/// (3) When the buffer goes, gradients stay, in memory of their own (release()).
/// Cost of a step: one copy of each gradient, and one pass more on a rank whose weight is not 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/gradients/compression/flat_buffer.hpp>
#include <mn/gradients/gradient_watch.hpp>
#include <mn/gradients/ready_hooks.hpp>

namespace mn {

class GradientBuffer {
 public:
  GradientBuffer() = default;
  /// Collective. Gradients that exist already count as this step's. Throws ArgumentError if a parameter is not on the
  /// communicator's device.
  GradientBuffer(std::vector<at::Tensor> parameters, Communicator& comm, GradientWatch::Depth watch,
                 std::span<const std::size_t> order = {});
  ~GradientBuffer() { release(); }
  GradientBuffer(GradientBuffer&&) noexcept = default;
  GradientBuffer& operator=(GradientBuffer&& other) noexcept;

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] const FlatBuffer& flat() const noexcept { return flat_; }
  [[nodiscard]] FlatBuffer& flat() noexcept { return flat_; }
  /// Called by the gradients' hooks.
  [[nodiscard]] GradientWatch& watch() const noexcept { return *watch_; }
  /// Elements of the tail, for other buffers of the same layout.
  [[nodiscard]] std::size_t tail_count() const noexcept { return kNumbers + parameters_.size(); }

  /// Every gradient becomes None.
  void clear();
  /// Multiplies the gradients, as this rank means to: the watch sees no change.
  void scale(double factor);

  /// Records that a backward has finished gradient i. False if it was ready before (a second backward) or is not the
  /// buffer's view: then nothing is recorded.
  bool mark_ready(std::size_t i);
  [[nodiscard]] bool is_ready(std::size_t i) const { return ready_version_[i].has_value(); }
  /// True if gradient i was marked ready and still is the same tensor with the same version: torch has seen no write.
  [[nodiscard]] bool unchanged_since_ready(std::size_t i) const;
  /// No gradient is ready.
  void forget_ready();

  /// Multiplies gradient i, which is ready, by the factor that collect() will get, which then leaves it alone.
  void weigh_early(std::size_t i, double factor);
  [[nodiscard]] bool weighed_early() const noexcept { return weighed_early_; }

  /// Makes the buffer ready to be reduced: copies foreign gradients in, zeros where there are none, multiplies by
  /// `factor` if it is not 1, and fills the tail. `disturbed` tells all ranks that what this one sent early is stale.
  void collect(double weight, double factor, bool disturbed = false);
  /// Whether any rank was disturbed, by a reduced tail.
  [[nodiscard]] static bool disturbed_anywhere(const FlatBuffer& reduced);

  /// Call after `reduced` (this buffer's memory, or another of the same layout) became the mean over ranks of what
  /// collect() left. Gradients become Σ fᵢgᵢ / Σ wᵢ as views of `reduced`, and None where no rank has one. False if all
  /// weights are 0: then there is no mean.
  [[nodiscard]] bool finish(FlatBuffer& reduced);
  [[nodiscard]] bool finish() { return finish(flat_); }
  /// Whether the weight that collect() got was another than the mean that finish() found.
  [[nodiscard]] bool weighed_unevenly() const noexcept { return weighed_unevenly_; }

  /// Gives each gradient that lies here, or in the `reduced` that finish() took, memory of its own. Local. Only
  /// finish() may follow, with another buffer as `reduced`.
  void release() noexcept;

 private:
  // The tail: this rank's weight, 1 if it was disturbed, then 1 for each gradient that this rank has.
  static constexpr std::size_t kNumbers = 2;

  bool collect_one(std::size_t i);
  void multiply(double factor);

  std::vector<at::Tensor> parameters_;
  FlatBuffer flat_;
  std::vector<at::Tensor> means_;                            // of the buffer that finish() took
  std::vector<std::optional<std::uint32_t>> ready_version_;  // [parameters] of the view when it was marked
  bool weighed_early_ = false;                               // all that are ready are
  double weight_ = 0;                                        // as collect() got it
  bool weighed_unevenly_ = false;
  std::shared_ptr<GradientWatch> watch_;
  std::unique_ptr<ReadyHooks> hooks_;  // they hold a copy of flat_ and of watch_, so this object can move
};

}  // namespace mn
