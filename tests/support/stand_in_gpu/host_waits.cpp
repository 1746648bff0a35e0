#include "tests/support/stand_in_gpu/host_waits.hpp"

#include <atomic>

namespace mn::stand_in {
namespace {

std::atomic<HostWaitObserver> observer = nullptr;

}  // namespace

void observe_host_waits(HostWaitObserver given) { observer = given; }

void host_waits(const char* call) {
  if (const HostWaitObserver told = observer) told(call);
}

}  // namespace mn::stand_in
