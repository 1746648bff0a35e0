/// Stacks for signal handlers: an overflow of the usual stack leaves no other to report from.
///
/// Every thread that a program with mn::Job starts has one, whoever starts it (OpenMP, autograd, MPI): the program's
/// pthread_create is this file's, which runs the thread's function above a SignalStack and calls the C library's. In
/// builds with a sanitizer, which has a pthread_create of its own, the sanitizer provides the stacks.
///
/// Cost: for each thread two system calls at its start and two at its end, and 64 KiB of address space.
/// Source: Crashpad's client/pthread_create_linux.cc; sigaltstack(2).
#pragma once

namespace mn {

/// While it lives, handlers with SA_ONSTACK run on a stack of their own on this thread, unless the thread has one
/// already. Without memory for it nothing changes.
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
