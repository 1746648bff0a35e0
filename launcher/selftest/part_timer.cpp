#include "selftest/part_timer.hpp"

#include <utility>

namespace mn::selftest {

PartTimer::PartTimer(std::chrono::milliseconds patience, std::function<void(const std::string&)> on_late)
    : patience_(patience), on_late_(std::move(on_late)), end_(Clock::now() + patience), thread_([this] { watch(); }) {}

PartTimer::~PartTimer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  thread_.join();
}

void PartTimer::begin(const std::string& part) {
  const std::lock_guard lock(mutex_);
  part_ = part;
  end_ = Clock::now() + patience_;
}

void PartTimer::watch() {
  constexpr std::chrono::milliseconds kInterval{20};
  while (true) {
    std::this_thread::sleep_for(kInterval);
    std::string late;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      if (Clock::now() < end_) continue;
      late = part_;
    }
    on_late_(late);
    return;
  }
}

}  // namespace mn::selftest
