#include <cstddef>

#include <signal.h>
#include <sys/mman.h>

#include <mn/core/signal_stack.hpp>

namespace mn {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

}  // namespace

SignalStack::SignalStack() noexcept {
  stack_t present = {};
  if (sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  const stack_t own = {memory, 0, kBytes};
  if (sigaltstack(&own, nullptr) == 0) {
    memory_ = memory;
  } else {
    munmap(memory, kBytes);
  }
}

SignalStack::~SignalStack() {
  if (memory_ == nullptr) return;
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  munmap(memory_, kBytes);
}

}  // namespace mn
