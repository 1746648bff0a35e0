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

/// Averages the messages (gradients) of a flat buffer, all at once or some at a time.
/// (1) On CPU backends all ranks get the same mean, bit for bit.
/// (2) Each parameter is averaged alone; therefore the result does not depend on how messages are cut into buckets.
/// (3) The part of a gradient that a lossy averager does not send is the rank's residual, which is added to the rank's
///     next gradient (error_feedback.hpp).
class GradientAverager {
 public:
  virtual ~GradientAverager() = default;
  GradientAverager(const GradientAverager&) = delete;
  GradientAverager& operator=(const GradientAverager&) = delete;

  /// Collective. Call it before the first reduction, and whenever the order of the gradients in memory changes:
  /// compressors make buffers in memory order.
  virtual void lay_out(std::span<const std::size_t> /*order*/, Communicator& /*comm*/) {}

  /// Collective. Replaces the messages [first, first + count) by their mean over ranks, or with compression by an
  /// approximation of the mean. `divisor` is StepWeight::divisor; of the calls in a step, only the call with message 0
  /// reads it. If the same messages are averaged again before commit(), the later call replaces the earlier call. On a
  /// GPU the work is enqueued on the caller's current stream and may end after the call: `gradients` must live until
  /// then.
  void allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, double divisor, Communicator& comm);
  /// Returns 1 / (number of ranks) if each rank may multiply gradients by this factor. Their sum over ranks is then the
  /// mean. Returns 1 if the ranks must not multiply: for 16-bit gradients, which the factor would round once more; with
  /// a compressor, which sends no plain sum; without collectives of the device; and in debug mode.
  [[nodiscard]] double share_of_rank(const std::vector<at::Tensor>& parameters, Communicator& comm) const;
  /// From now on allreduce() computes sums over ranks if `sums` is true, otherwise means. `sums` may be true only if
  /// share_of_rank() is not 1.
  void make_sums(bool sums) noexcept { makes_sums_ = sums; }
  /// True if the result of allreduce() depends on `divisor`.
  [[nodiscard]] virtual bool uses_divisor() const noexcept { return false; }

  /// Call it if the step uses the mean. Keeps the new residual of each parameter whose gradient is not None, for the
  /// next step.
  virtual void commit() {}

  /// Tells that from the next reduction on a GradScaler has multiplied the gradients by `scale`. Residuals are kept
  /// unscaled. An element that overflows arrives as infinity or NaN; therefore the GradScaler lowers the scale.
  virtual void set_scale(double /*scale*/) {}

  /// Adds to bytes_sent() the number of bytes in the buffers that a collective call has sent. Returns this number.
  std::uint64_t count_bytes(std::span<const BufferView> sent) noexcept;
  void count_bytes(std::uint64_t bytes) noexcept { bytes_sent_ += bytes; }
  /// Bytes that the calling rank has passed to collectives.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

  /// Returns the reductions on a GPU as the trace will show them. Call settle() on this object when the host waits for
  /// the GPU in any case.
  [[nodiscard]] TracedWork& traced() noexcept { return traced_; }

  /// Returns the calling rank's residuals. Call it between steps.
  [[nodiscard]] virtual NamedTensors state() const { return {}; }
  /// Takes the residuals from `state`. Throws DataError if `state` belongs to another model.
  virtual void load_state(const NamedTensors& /*state*/) {}

 protected:
  explicit GradientAverager(std::shared_ptr<Trace> trace) : traced_(std::move(trace)) {}
  virtual void do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, double divisor,
                            Communicator& comm) = 0;
  /// Collective. Replaces each of `buffers` by its mean over ranks.
  void average(std::span<const BufferView> buffers, Communicator& comm);
  /// True if the result is the sum over ranks, element by element, divided by the number of ranks.
  [[nodiscard]] virtual bool is_plain_mean() const noexcept { return false; }
  /// Collective. Writes the `own` buffers of all ranks to `all`, in rank order.
  void allgather(ConstBufferView own, BufferView all, Communicator& comm);

 private:
  TracedWork traced_;
  bool makes_sums_ = false;
  std::atomic<std::uint64_t> bytes_sent_ = 0;
};

}  // namespace mn
