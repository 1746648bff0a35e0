/// Times of a device's work, by events on its streams. Internal.
///
/// The host records events and goes on; it waits for the device where it reads times, which is for reports.
/// (1) Nothing is queried before: a query costs what a launch does.
/// (2) A timer keeps its newest kSpans spans. Where there were more since the last look, their mean stands for all.
#pragma once

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

/// Adds up spans of the current stream.
class DeviceTimer {
 public:
  static constexpr std::size_t kSpans = 1024;  ///< spans that are kept between two looks

  explicit DeviceTimer(Device device) : device_(device) {}
  /// A span begins; one that has not ended is forgotten.
  void begin();
  /// The span ends; does nothing without one.
  void end();
  /// Seconds of all spans that have ended; waits for the last of them.
  [[nodiscard]] double seconds();

 private:
  using Span = std::pair<c10::Event, c10::Event>;  // begin, end

  Device device_;
  std::vector<Span> spans_;  // a ring
  std::uint64_t ended_ = 0;  // spans since the last look; the next one's index in the ring
  bool is_open_ = false;     // the next one has begun
  double seconds_ = 0;       // until the last look
};

/// Adds spans of work to a trace: on a device those of its current stream, on the CPU the host's. Any thread.
class TracedWork {
 public:
  /// A null `trace` records nothing.
  explicit TracedWork(std::shared_ptr<Trace> trace) : trace_(std::move(trace)) {}

  /// A span of what is done, or enqueued, while this object lives. `name` is a literal.
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
    std::unique_ptr<c10::Event> begin_;  // null: the host's time
  };

  /// The trace gets the spans that are done, by the host's clock: waits for the current stream, whose present is now.
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
