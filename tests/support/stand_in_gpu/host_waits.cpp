#include "tests/support/stand_in_gpu/host_waits.hpp"

#include <atomic>
#include <utility>

namespace mn::stand_in {
namespace {

std::atomic<WaitObserver> listener = nullptr;
thread_local const void* queried = nullptr;

}  // namespace

void observe_waits(WaitObserver observer) { listener = observer; }

void tell_wait(const char* call) {
  if (const WaitObserver observer = listener) observer(call);
}

void tell_query(const char* call, const void* of) {
  if (std::exchange(queried, of) != of || of == nullptr) tell_wait(call);
}

void end_queries() { queried = nullptr; }

}  // namespace mn::stand_in
