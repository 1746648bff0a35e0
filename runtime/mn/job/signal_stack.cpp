#include <mn/job/signal_stack.hpp>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

namespace mn {
namespace {

constexpr std::size_t kSignalStackBytes = 64 * 1024;

}  // namespace

SignalStack::SignalStack() noexcept {
  stack_t present = {};
  if (sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return;
  void* const memory =
      mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  const stack_t own = {memory, 0, kSignalStackBytes};
  if (sigaltstack(&own, nullptr) == 0) {
    memory_ = memory;
  } else {
    munmap(memory, kSignalStackBytes);
  }
}

SignalStack::~SignalStack() {
  if (memory_ == nullptr) return;
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  munmap(memory_, kSignalStackBytes);
}

}  // namespace mn

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

struct ThreadStart {
  void* (*function)(void*);
  void* argument;
};

/// Must not be noexcept, because pthread_exit() and cancellation unwind the stack through this function.
void* run_above_signal_stack(void* given) {
  const ThreadStart start = *std::unique_ptr<ThreadStart>(static_cast<ThreadStart*>(given));
  const mn::SignalStack stack;
  return start.function(start.argument);
}

}  // namespace

/// Replaces the C library's pthread_create() in shared libraries, too: the linker finds this one first.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*function)(void*),
                                                                     void* argument) noexcept {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static Create* const create = reinterpret_cast<Create*>(dlsym(RTLD_NEXT, "pthread_create"));
  std::unique_ptr<ThreadStart> start(new (std::nothrow) ThreadStart{function, argument});
  if (create == nullptr || start == nullptr) return EAGAIN;
  const int error = create(thread, attributes, run_above_signal_stack, start.get());
  if (error == 0) static_cast<void>(start.release());  // the new thread deletes `start`
  return error;
}

#endif
