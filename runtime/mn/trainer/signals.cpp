#include <mn/trainer/signals.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr std::int64_t kSameNotice_ms = 1000;  // two copies of a signal may arrive, from a launcher and from mnlaunch

// These variables are global, because a signal handler gets no argument except the signal's number.
std::atomic<int> raised_signal = 0;
std::array<std::atomic<std::int64_t>, NSIG> first_at_ms;  // for each signal, when it first came; 0: not yet
std::atomic<bool> is_over = false;                        // true when all ranks end: signals are ignored
struct sigaction end_action = {};                         // the action of SIGTERM before this object
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000 + 1;
}

}  // namespace

void SignalFlag::handle(int signal) {
  if (is_over) return;
  const int saved_errno = errno;
  // Only async-signal-safe functions: lock-free atomics, clock_gettime(2), sigaction(2), raise(3).
  auto& first = first_at_ms[static_cast<std::size_t>(signal)];
  const std::int64_t now = now_ms();
  std::int64_t before = 0;
  if (first.compare_exchange_strong(before, now)) {
    int none = 0;
    raised_signal.compare_exchange_strong(none, signal);
  } else if (now - before > kSameNotice_ms) {
    // A signal sent again says that the save takes too long. SIGTERM's earlier action ends the process.
    sigaction(SIGTERM, &end_action, nullptr);
    raise(SIGTERM);
  }
  errno = saved_errno;
}

void SignalFlag::check_nccl() {
  const auto number = environment_int("NCCL_PROXY_DUMP_SIGNAL");
  if (!number || std::ranges::find(kNotices, *number) == kNotices.end()) return;
  throw UsageError("NCCL_PROXY_DUMP_SIGNAL is " + signal_name(static_cast<int>(*number)) +
                   ", with which schedulers ask for a checkpoint: NCCL would take it; give it another signal, or none");
}

SignalFlag::SignalFlag(bool enabled) : enabled_(enabled) {
  if (!enabled_) return;
  check_nccl();
  raised_signal = 0;
  is_over = false;
  for (auto& first : first_at_ms) first = 0;
  sigaction(SIGTERM, nullptr, &end_action);
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kNotices.size(); ++i) {
    sigaction(kNotices[i], nullptr, &old_[i]);
    // If nohup or a shell has made the program ignore a signal, the signal stays ignored.
    if (old_[i].sa_handler != SIG_IGN) sigaction(kNotices[i], &action, nullptr);
  }
}

SignalFlag::~SignalFlag() {
  // After keep() the process is about to end, and a late signal would change its exit status.
  if (kept_) is_over = true;
  if (!enabled_ || kept_) return;
  for (std::size_t i = 0; i < kNotices.size(); ++i) sigaction(kNotices[i], &old_[i], nullptr);
}

int SignalFlag::raised() const noexcept { return enabled_ ? raised_signal.load() : 0; }

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

}  // namespace mn
