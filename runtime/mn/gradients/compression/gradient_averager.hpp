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

/// What all averagers promise:
/// (1) On CPU backends all ranks end with the same bits.
/// (2) Each parameter is averaged by itself, so the result does not depend on how messages are cut into buckets.
/// (3) What a lossy averager does not send is the rank's residual, added to its next gradient (error_feedback.hpp).
class GradientAverager {
 public:
  virtual ~GradientAverager() = default;
  GradientAverager(const GradientAverager&) = delete;
  GradientAverager& operator=(const GradientAverager&) = delete;

  /// Collective, before the first reduction and whenever the order of the gradients in memory changes.
  virtual void lay_out(std::span<const std::size_t> /*order*/, Communicator& /*comm*/) {}

  /// Collective, in place: messages [first, first + count) become their mean over ranks, approximately. `divisor` is
  /// StepWeight::divisor, which uses_divisor() needs of the call with the first message. Calls before commit() replace
  /// each other: the last one counts. On a GPU the work is enqueued on the caller's current stream,
  /// and the call may return before it is done: `gradients` must live on.
  void allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, double divisor, Communicator& comm);
  /// Whether the result depends on the divisor.
  [[nodiscard]] virtual bool uses_divisor() const noexcept { return false; }

  /// The step uses what was reduced, for the parameters whose gradient is not None: their residuals are kept.
  virtual void commit() {}

  /// Gradients are multiplied by `scale` from the next reduction on, a GradScaler's. Residuals are kept in the
  /// gradients' own units, and what overflows arrives as infinity or NaN, so that the scale falls.
  virtual void set_scale(double /*scale*/) {}

  /// Counts what was passed to a collective, this object's own or another's, and returns its bytes.
  std::uint64_t count_bytes(std::span<const BufferView> sent) noexcept;
  void count_bytes(std::uint64_t bytes) noexcept { bytes_sent_ += bytes; }
  /// Bytes that this rank has passed to collectives.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

  /// Where a trace shows reductions on a device; settled where the host waits in any case.
  [[nodiscard]] TracedWork& traced() noexcept { return traced_; }

  /// This rank's residuals, between steps.
  [[nodiscard]] virtual NamedTensors state() const { return {}; }
  /// Throws DataError if the state is of other parameters.
  virtual void load_state(const NamedTensors& /*state*/) {}

 protected:
  explicit GradientAverager(std::shared_ptr<Trace> trace) : traced_(std::move(trace)) {}
  virtual void do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, double divisor,
                            Communicator& comm) = 0;
  /// Collective, in place: the mean of these buffers over ranks.
  void average(std::span<const BufferView> buffers, Communicator& comm);
  /// Collective: every rank's `own`, in rank order.
  void allgather(ConstBufferView own, BufferView all, Communicator& comm);

 private:
  TracedWork traced_;
  std::atomic<std::uint64_t> bytes_sent_ = 0;
};

}  // namespace mn
