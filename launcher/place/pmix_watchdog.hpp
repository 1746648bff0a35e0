/// Ends the process if a call to libpmix, which waits without end for a server that hangs, takes too long.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace mn::launcher {

class PmixWatchdog {
 public:
  explicit PmixWatchdog(std::chrono::milliseconds patience) : patience_(patience), thread_([this] { watch(); }) {}
  ~PmixWatchdog() {
    end_ = true;
    thread_.join();
  }
  PmixWatchdog(const PmixWatchdog&) = delete;
  PmixWatchdog& operator=(const PmixWatchdog&) = delete;

  /// A call that is watched for as long as this lives.
  class Call {
   public:
    explicit Call(PmixWatchdog& dog) : dog_(dog) { dog.deadline_ = Clock::now() + dog.patience_ + kMargin; }
    ~Call() { dog_.deadline_ = Clock::time_point::max(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    static constexpr std::chrono::seconds kMargin{2};  // a fence ends by itself, and then asks who is missing
    PmixWatchdog& dog_;
  };

 private:
  using Clock = std::chrono::steady_clock;

  /// Writes one line and exits with kExitCheckFailed after the deadline.
  void watch() const;

  std::chrono::milliseconds patience_;
  std::atomic<Clock::time_point> deadline_ = Clock::time_point::max();
  std::atomic<bool> end_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace mn::launcher
