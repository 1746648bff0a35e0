/// Measures how long a device works, by events on its streams. Internal.
///
/// The host records events and does not wait. Only reading the times waits for the device.
/// (1) Events are queried only when times are read, because a query costs as much as a launch.
/// (2) A timer keeps its newest kSpans spans. If more spans have ended since the last read, each of them counts with
///     the mean of the kept spans.
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

/// A point in time: on the CPU a time of the host, on a device a position in the device's sequence of work. Making a
/// Moment does not wait for the device.
class Moment {
 public:
  Moment() = default;
  /// Returns the present time. On a device, this is the end of the present work of the device's current stream.
  [[nodiscard]] static Moment now(Device device);
  /// Returns the seconds from `earlier`, a moment of the same device. Waits until the device has reached this moment.
  [[nodiscard]] double seconds_since(const Moment& earlier) const;

 private:
  std::chrono::steady_clock::time_point on_host_;
  std::shared_ptr<c10::Event> on_device_;  // null on the CPU
};

/// Measures work on the current stream in spans, from begin() to end(), and adds up their times.
class DeviceTimer {
 public:
  static constexpr std::size_t kSpans = 1024;  ///< spans kept between two reads

  explicit DeviceTimer(Device device) : device_(device) {}
  /// Begins a span. Drops an earlier span that has not ended.
  void begin();
  /// Does nothing if no span has begun.
  void end();
  /// The seconds of all ended spans together. Waits until the device has reached the end of the last span.
  [[nodiscard]] double seconds();

 private:
  using Span = std::pair<c10::Event, c10::Event>;  // begin, end

  Device device_;
  std::vector<Span> spans_;  // a ring: new spans replace the oldest ones
  std::uint64_t ended_ = 0;  // number of spans since the last read; modulo the ring's size, the index of the next span
  bool is_open_ = false;     // the next span has begun
  double seconds_ = 0;       // sum over all spans up to the last read
};

/// Records how long pieces of work take, and adds them to a trace. On a device, measures the work of the current
/// stream, on the CPU the work of the host. Any thread may use a TracedWork.
class TracedWork {
 public:
  /// If `trace` is null, nothing is recorded.
  explicit TracedWork(std::shared_ptr<Trace> trace) : trace_(std::move(trace)) {}

  /// While a Scope lives, work that is done or enqueued belongs to a span of the trace called `name` (a literal).
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
    std::unique_ptr<c10::Event> begin_;  // null on the CPU, where the host measures
  };

  /// Waits for the current stream, and moves all finished spans to the trace. Events do not tell the time on the host's
  /// clock, so the end of the stream's work counts as the present time, from which all times are computed.
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
