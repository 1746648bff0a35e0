/// What a rank did when: spans of time, to be shown one above the other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace mn {

/// Spans of computation, communication and waiting for data, added by any thread. A null Trace costs nothing: those
/// who record take a pointer.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Lane : std::uint8_t { kCompute, kCommunication, kData };
  struct Span {
    const char* name;  ///< a literal
    Lane lane;
    Clock::time_point begin;
    Clock::time_point end;
    std::uint64_t bytes;  ///< moved; 0 for what moves none
  };

  void add(const Span& span);
  /// From now on nothing is kept.
  void stop() noexcept { recording_ = false; }
  /// All spans so far, which the trace forgets.
  [[nodiscard]] std::vector<Span> take();

  /// A span from construction to destruction.
  class Scope {
   public:
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
