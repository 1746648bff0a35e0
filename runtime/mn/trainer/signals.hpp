/// A scheduler's notice that the job is about to end (SIGTERM, SIGUSR1), as a flag.
#pragma once

#include <csignal>

namespace mn {

/// While it lives and is enabled, SIGTERM and SIGUSR1 set a flag and do nothing else; then the old handlers return,
/// unless keep() was called. One at a time in a process.
class SignalFlag {
 public:
  explicit SignalFlag(bool enabled);
  ~SignalFlag();
  SignalFlag(const SignalFlag&) = delete;
  SignalFlag& operator=(const SignalFlag&) = delete;

  /// True from the first such signal on.
  [[nodiscard]] bool raised() const noexcept;
  /// From now on the process ignores these signals. For when a rank has had one and all end: this rank's may come late.
  void keep() noexcept { kept_ = true; }

 private:
  bool enabled_;
  bool kept_ = false;
  struct sigaction old_term_ = {};
  struct sigaction old_usr1_ = {};
};

}  // namespace mn
