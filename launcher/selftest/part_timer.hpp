/// Ends a self test that hangs.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace mn::selftest {

/// A thread that calls `on_late` once, with the name of the first part that takes longer than `patience`. A part lasts
/// until the next part begins, the last until the process ends.
class PartTimer {
 public:
  PartTimer(std::chrono::milliseconds patience, std::function<void(const std::string& part)> on_late);
  ~PartTimer();
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;

  void begin(const std::string& part);

 private:
  using Clock = std::chrono::steady_clock;

  void watch();

  std::chrono::milliseconds patience_;
  std::function<void(const std::string&)> on_late_;
  std::mutex mutex_;
  std::string part_ = "the start";
  Clock::time_point end_;
  bool stop_ = false;
  std::thread thread_;  // last: uses all other members
};

}  // namespace mn::selftest
