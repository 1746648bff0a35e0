/// Gives threads a second stack for signal handlers, because a thread whose stack has overflowed needs another stack to
/// report the fault. Every thread of a program with mn::Job has a second stack, because signal_stack.cpp defines a
/// pthread_create that calls the C library's pthread_create and gives the new thread a SignalStack. A sanitizer has a
/// pthread_create of its own, and provides the stacks.
///
/// Cost: per thread, two system calls at the start and two at the end, and 64 KiB of address space. Source: Crashpad's
/// client/pthread_create_linux.cc; sigaltstack(2).
#pragma once

namespace mn {

/// While a SignalStack lives, signal handlers with SA_ONSTACK use a separate stack on its thread, unless the thread
/// already has a signal stack. Has no effect if there is no memory for the stack.
class SignalStack {
 public:
  SignalStack() noexcept;
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  void* memory_ = nullptr;
};

}  // namespace mn
