/// Times of a device's work, by events on its streams. Internal.
///
/// The host records events and goes on; only reading the times waits for the device.
/// (1) Events are queried only when times are read: a query costs as much as a launch.
/// (2) A timer keeps its newest kSpans spans. If more have ended since the last read, the mean of the kept spans stands
///     for all.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/core/Event.h>

#include <mn/core/buffer.hpp>
#include <mn/core/trace.hpp>

namespace mn {

/// A point in time, of the host or in a device's sequence of work. The host does not wait.
class Moment {
 public:
  Moment() = default;
  /// The present time. On a device this is the end of the work that the device's current stream now holds.
  [[nodiscard]] static Moment now(Device device);
  /// Seconds from `earlier` to this moment. Both must be of the same device. Waits until the device has reached this
  /// moment.
  [[nodiscard]] double seconds_since(const Moment& earlier) const;

 private:
  std::chrono::steady_clock::time_point on_host_;
  std::shared_ptr<c10::Event> on_device_;  // null on the CPU
};

/// Adds up the times of spans of work on the current stream.
class DeviceTimer {
 public:
  static constexpr std::size_t kSpans = 1024;  ///< spans kept between two reads

  explicit DeviceTimer(Device device) : device_(device) {}
  /// Begins a span. If a span is open, it is dropped.
  void begin();
  /// Ends the span; does nothing without an open span.
  void end();
  /// Seconds of all ended spans. Waits until the device has reached the end of the last span.
  [[nodiscard]] double seconds();

 private:
  using Span = std::pair<c10::Event, c10::Event>;  // begin, end

  Device device_;
  std::vector<Span> spans_;  // a ring
  std::uint64_t ended_ = 0;  // spans since the last read; index of the next span in the ring
  bool is_open_ = false;     // the next span has begun
  double seconds_ = 0;       // up to the last read
};

/// Adds spans of work to a trace. On a device it measures the work of the current stream; on the CPU, the work of the
/// host. Any thread may use it.
class TracedWork {
 public:
  /// A null `trace` records nothing.
  explicit TracedWork(std::shared_ptr<Trace> trace) : trace_(std::move(trace)) {}

  /// Records a span for the work that is done or enqueued during this object's life. `name` is a literal.
  class Scope {
   public:
    Scope(TracedWork& work, Device device, const char* name, Trace::Lane lane);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void set_bytes(std::uint64_t bytes) noexcept { span_.bytes = bytes; }

   private:
    TracedWork& work_;
    Device device_;
    Trace::Span span_;
    std::unique_ptr<c10::Event> begin_;  // null: measured on the host
  };

  /// Waits for the current stream and moves all finished spans to the trace. Their times are converted to the host's
  /// clock: the end of the stream's work is taken to be the present.
  void settle(Device device);

 private:
  struct Enqueued {
    Trace::Span span;
    std::unique_ptr<c10::Event> begin, end;
  };

  std::shared_ptr<Trace> trace_;
  std::mutex mutex_;
  std::deque<Enqueued> enqueued_;
};

}  // namespace mn
