/// Gives threads a second stack for signal handlers, because a thread whose stack has overflowed needs one to report
/// the fault. Every thread of a program with mn::Job has one: this file defines pthread_create, which calls the C
/// library's pthread_create and gives the thread a SignalStack. A sanitizer has a pthread_create of its own, and
/// provides the stacks.
///
/// Cost: per thread, two system calls at the start and two at the end, and 64 KiB of address space. Source: Crashpad's
/// client/pthread_create_linux.cc; sigaltstack(2).
#pragma once

namespace mn {

/// While an object lives, handlers with SA_ONSTACK use a separate stack on the thread, unless the thread has a signal
/// stack already. Has no effect if memory is short.
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
