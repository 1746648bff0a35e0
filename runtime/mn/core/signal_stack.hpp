/// A stack for signal handlers: an overflow of the usual one leaves no other to report from.
#pragma once

namespace mn {

/// First in the function of each thread that mn starts. While it lives, handlers with SA_ONSTACK run on a stack of
/// their own there, unless the thread has one already (a sanitizer's, say). Without memory for it nothing changes.
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
