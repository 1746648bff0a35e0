#include "tests/support/stand_in_gpu/host_waits.hpp"

#include <atomic>
#include <chrono>
#include <utility>

namespace mn::stand_in {
namespace {

std::atomic<WaitObserver> listener = nullptr;
thread_local const void* queried = nullptr;
thread_local bool is_told = false;
constexpr auto kAgain = std::chrono::milliseconds(10);

}  // namespace

void observe_waits(WaitObserver observer) { listener = observer; }

void tell_wait(const char* call) {
  if (const WaitObserver observer = listener) observer(call);
}

void tell_query(const char* call, const void* of, bool is_wait) {
  using Clock = std::chrono::steady_clock;
  static thread_local Clock::time_point last;
  const bool is_soon = Clock::now() - std::exchange(last, Clock::now()) < kAgain;
  const bool is_first = std::exchange(queried, of) != of || of == nullptr || !is_soon;
  if (is_first) is_told = false;
  if ((!is_first || is_wait) && !std::exchange(is_told, true)) tell_wait(call);
}

void end_queries() { queried = nullptr; }

}  // namespace mn::stand_in
