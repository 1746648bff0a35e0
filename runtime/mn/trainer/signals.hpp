/// Notices that a scheduler wants to end the job, by the signals SIGTERM, SIGUSR1, SIGUSR2 and SIGHUP, and sets a flag.
/// trainer_run.cpp ends the training when the flag is set.
#pragma once

#include <array>
#include <csignal>
#include <string>

namespace mn {

/// While an enabled object lives, the first of the four signals only sets a flag. If a different signal comes later, it
/// is ignored: Slurm sends SIGTERM some time after the signal of --signal, and SIGTERM must not cut off a checkpoint.
/// If the first signal comes again after more than a second, it ends the process at once, as SIGTERM does without a
/// SignalFlag. A signal that the program already ignores (SIGHUP under nohup) stays ignored. The destructor restores
/// the old handlers, unless keep() was called. A process may have only one object at a time.
class SignalFlag {
 public:
  /// Throws UsageError if NCCL_PROXY_DUMP_SIGNAL names one of the four signals, because NCCL would then replace the
  /// handler.
  explicit SignalFlag(bool enabled);
  ~SignalFlag();
  SignalFlag(const SignalFlag&) = delete;
  SignalFlag& operator=(const SignalFlag&) = delete;

  /// Returns the number of the signal that came first (SIGTERM, SIGUSR1, SIGUSR2 or SIGHUP); 0 if none has come yet.
  [[nodiscard]] int raised() const noexcept;
  /// From now on, the process ignores the four signals, even after the destructor. Call it when all ranks end because
  /// one rank got a signal, because the signals to all other ranks may come late.
  void keep() noexcept { kept_ = true; }

 private:
  static constexpr std::array kNotices = {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};

  static void handle(int signal);
  static void check_nccl();

  bool enabled_;
  bool kept_ = false;
  std::array<struct sigaction, kNotices.size()> old_ = {};
};

/// Returns the name of a signal, for instance "SIGUSR1".
[[nodiscard]] std::string signal_name(int signal);

}  // namespace mn
