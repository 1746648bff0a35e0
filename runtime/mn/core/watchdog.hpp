/// A thread that notices if the program hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace mn {

/// Watches work that is a sequence of named parts. A part lasts until the next part begins, or until end(). For the
/// first part that takes longer than `patience`, the watchdog's thread calls `on_late` with the part's name.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds patience, std::function<void(const std::string& part)> on_late)
      : patience_(patience), on_late_(std::move(on_late)), thread_([this] { watch(); }) {}
  ~Watchdog() {
    change(Clock::time_point::max(), "", true);
    thread_.join();
  }

  void begin(const std::string& part) { change(Clock::now() + patience_, part); }
  void end() { change(Clock::time_point::max(), ""); }

 private:
  using Clock = std::chrono::steady_clock;

  void change(Clock::time_point until, const std::string& part, bool stop = false) {
    const std::lock_guard lock(mutex_);
    until_ = until;
    part_ = part;
    stop_ = stop;
    changed_.notify_all();
  }
  void watch() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (Clock::now() >= until_) {
        const std::string late = part_;
        lock.unlock();
        return on_late_(late);
      }
      changed_.wait_until(lock, until_);
    }
  }

  std::chrono::milliseconds patience_;
  std::function<void(const std::string&)> on_late_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point until_ = Clock::time_point::max();
  std::string part_;
  bool stop_ = false;
  std::thread thread_;  // the last member: the thread uses all others
};

}  // namespace mn
