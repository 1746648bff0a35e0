/// Records what a rank has done and when. Each record is a span of time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace mn {

/// Collects spans of computation, communication and waiting for data, from any thread. To profile a training, give a
/// single Trace to both the optimizer and the trainer. Classes that record spans hold a pointer to a Trace; if the
/// pointer is null, nothing is recorded.
class Trace {
 public:
  /// The clock that measures the spans.
  using Clock = std::chrono::steady_clock;
  /// The row in which a viewer of the trace shows a span.
  enum class Lane : std::uint8_t {
    kCompute,        ///< forward, backward, update, and waiting for communication
    kCommunication,  ///< collectives, on any thread
    kData            ///< waiting for a minibatch
  };
  /// One span of time.
  struct Span {
    const char* name;         ///< a string literal
    Lane lane;                ///< the row in which the span is shown
    Clock::time_point begin;  ///< when the span began
    Clock::time_point end;    ///< when the span ended
    std::uint64_t bytes;      ///< bytes passed to collectives; 0 for other work
  };

  /// Adds a span. Does nothing after stop(). Any thread may call the function.
  void add(const Span& span) {
    if (!recording_) return;
    const std::lock_guard lock(mutex_);
    spans_.push_back(span);
  }
  /// Stops recording: all further spans are dropped.
  void stop() noexcept { recording_ = false; }
  /// Removes and returns all spans so far.
  [[nodiscard]] std::vector<Span> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(spans_, {});
  }

  /// Records a span that begins with this object's construction and ends with its destruction.
  class Scope {
   public:
    /// If `trace` is null, nothing is recorded. `name` must be a string literal.
    Scope(Trace* trace, const char* name, Lane lane) : trace_(trace), span_{name, lane, {}, {}, 0} {
      if (trace_ != nullptr) span_.begin = Clock::now();
    }
    ~Scope() {
      if (trace_ == nullptr) return;
      span_.end = Clock::now();
      trace_->add(span_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    /// Sets the span's number of bytes.
    void set_bytes(std::uint64_t bytes) noexcept { span_.bytes = bytes; }

   private:
    Trace* trace_;
    Span span_;
  };

 private:
  std::atomic<bool> recording_ = true;
  std::mutex mutex_;
  std::vector<Span> spans_;
};

}  // namespace mn
