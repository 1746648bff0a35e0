/// Averages gradients over ranks, uncompressed or in a compressed form.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/trace.hpp>
#include <mn/tensor/device_times.hpp>
#include <mn/tensor/flat_buffer.hpp>
#include <mn/tensor/modules.hpp>

namespace mn {

/// Averages the messages of a flat buffer over ranks, all at once or some at a time. A message holds one gradient.
/// (1) On CPU backends all ranks get the same mean, bit for bit.
/// (2) Each gradient is averaged alone; therefore the result does not depend on how messages are cut into buckets.
/// (3) With lossy compression a rank keeps the part of a gradient that it does not send, and adds this part to its next
///     gradient (error_feedback.hpp).
class GradientAverager {
 public:
  virtual ~GradientAverager() = default;
  GradientAverager(const GradientAverager&) = delete;
  GradientAverager& operator=(const GradientAverager&) = delete;

  /// Collective. Call it before the first reduction, and whenever the order of the gradients in memory changes, because
  /// compressors make buffers in the order of the gradients in memory.
  virtual void lay_out(std::span<const std::size_t> /*order*/, Communicator& /*comm*/) {}

  /// Collective. Replaces the messages [first, first + count) by their mean over ranks. With compression the result is
  /// an approximation of the mean. `divisor` is StepWeight::divisor; in each step only the call that averages message 0
  /// reads `divisor`. If a message is averaged twice before commit(), the second call counts. On a GPU the work is
  /// enqueued on the caller's current stream and may end after the call; therefore `gradients` must live until the work
  /// ends.
  void allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, double divisor, Communicator& comm);
  /// Returns 1 / (number of ranks) if each rank may multiply its gradients by this factor, so that a sum over ranks
  /// gives the mean. Returns 1 if ranks must not multiply: if a gradient has 16 bits, because the product would be
  /// rounded; with a compressor, because it sends no plain sum; without collectives of the device; and in debug mode.
  [[nodiscard]] double share_of_rank(const std::vector<at::Tensor>& parameters, Communicator& comm) const;
  /// If `sums` is true, allreduce() computes sums over ranks from now on, otherwise means. `sums` may be true only if
  /// share_of_rank() is not 1.
  void make_sums(bool sums) noexcept { makes_sums_ = sums; }
  /// True if the result of allreduce() depends on `divisor`.
  [[nodiscard]] virtual bool uses_divisor() const noexcept { return false; }

  /// Call it if the step uses the mean. Each parameter that has a gradient keeps its new residual for the next step.
  virtual void commit() {}

  /// From the next reduction on, a GradScaler has multiplied the gradients by `scale`. Residuals are kept without this
  /// factor. An element that overflows arrives as infinity or NaN, so that the GradScaler sees the overflow and lowers
  /// its scale.
  virtual void set_scale(double /*scale*/) {}

  /// Adds up the bytes of the buffers `sent`, which a collective call has sent. Adds the sum to bytes_sent(), and
  /// returns the sum.
  std::uint64_t count_bytes(std::span<const BufferView> sent) noexcept;
  void count_bytes(std::uint64_t bytes) noexcept { bytes_sent_ += bytes; }
  /// Bytes that the calling rank has passed to collectives.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

  /// Returns the object that times reductions on a GPU for the trace. When the host waits for the GPU anyway, call
  /// settle() on the object.
  [[nodiscard]] TracedWork& traced() noexcept { return traced_; }

  /// Returns the calling rank's residuals. Call it between steps.
  [[nodiscard]] virtual NamedTensors state() const { return {}; }
  /// Replaces the residuals by those in `state`. Throws DataError if `state` belongs to another model.
  virtual void load_state(const NamedTensors& /*state*/) {}

 protected:
  explicit GradientAverager(std::shared_ptr<Trace> trace) : traced_(std::move(trace)) {}
  virtual void do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, double divisor,
                            Communicator& comm) = 0;
  /// Collective. Replaces each of `buffers` by its mean over ranks.
  void average(std::span<const BufferView> buffers, Communicator& comm);
  /// True if allreduce() computes exactly the sum over ranks, element by element, divided by the number of ranks.
  [[nodiscard]] virtual bool is_plain_mean() const noexcept { return false; }
  /// Collective. Gathers the `own` buffers of all ranks in the buffer `all`, in rank order.
  void allgather(ConstBufferView own, BufferView all, Communicator& comm);

 private:
  TracedWork traced_;
  bool makes_sums_ = false;
  std::atomic<std::uint64_t> bytes_sent_ = 0;
};

}  // namespace mn
