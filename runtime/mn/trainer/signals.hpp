/// A scheduler's notice that the job is about to end (SIGTERM, SIGUSR1, SIGUSR2, SIGHUP), as a flag.
#pragma once

#include <array>
#include <csignal>
#include <string>

namespace mn {

/// While it lives and is enabled, the first of these signals sets a flag and does nothing else; then the old handlers
/// return, unless keep() was called. The same signal again, more than a second later, ends the process at once, as
/// SIGTERM does without this object: Slurm sends SIGTERM some time after --signal's, and that must not cut off a
/// checkpoint. Signals that the program ignores, such as SIGHUP under nohup, stay ignored. One at a time in a process.
class SignalFlag {
 public:
  /// Throws UsageError if NCCL_PROXY_DUMP_SIGNAL is one of these signals, which NCCL would take.
  explicit SignalFlag(bool enabled);
  ~SignalFlag();
  SignalFlag(const SignalFlag&) = delete;
  SignalFlag& operator=(const SignalFlag&) = delete;

  /// The number of the first such signal, from then on; 0 before.
  [[nodiscard]] int raised() const noexcept;
  /// When this object goes, the process ignores these signals. For when a rank has had one and all end: this rank's may
  /// come late.
  void keep() noexcept { kept_ = true; }

 private:
  static constexpr std::array kNotices = {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};

  static void handle(int signal);
  static void check_nccl();

  bool enabled_;
  bool kept_ = false;
  std::array<struct sigaction, kNotices.size()> old_ = {};
};

/// "SIGUSR1".
[[nodiscard]] std::string signal_name(int signal);

}  // namespace mn
