#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <utility>

#include <mn/comm/flight_recorder.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/blocked_signals.hpp>
#include <mn/core/log.hpp>
#include <mn/job/progress_watch.hpp>

namespace mn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPeriod = std::chrono::seconds(1);
constexpr auto kStandstill = std::chrono::seconds(3);  // a look that comes so late: the process did not run
constexpr int kLooksBeforeOwnReport = 10;              // longer than a survey
constexpr int kLooksBetweenSurveys = 60;
constexpr double kSendPatience_s = 10;

bool has_debugger() {
  std::ifstream file("/proc/self/status");
  // A process that a debugger has stopped makes no progress, and does not hang.
  for (std::string word; file >> word;) {
    if (word != "TracerPid:") continue;
    file >> word;
    return word != "0";
  }
  return false;
}

}  // namespace

ProgressWatch::ProgressWatch(std::function<void()> start_survey, std::function<void()> on_stuck)
    : start_survey_(std::move(start_survey)), on_stuck_(std::move(on_stuck)) {
  const BlockedSignals blocked;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

ProgressWatch::~ProgressWatch() = default;

void ProgressWatch::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  auto last = Clock::now();
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, stop, kPeriod, [&] { return stop.stop_requested(); });
    const auto now = Clock::now();
    if (now - last > kStandstill) discount_standstill(now - last);  // (3): it does not count
    last = now;
    if (stop.stop_requested()) return;
    warn_of_sends();
    look();
  }
}

/// (4): warns of two ranks that both send before they receive, while messages are too large for MPI to keep them.
void ProgressWatch::warn_of_sends() {
  for (const CallUnderWay& call : calls_under_way()) {
    if (call.operation != "send" || call.seconds < kSendPatience_s || call.record <= last_send_) continue;
    last_send_ = call.record;
    log_warning(call.text + " has waited for its receiver for " + std::to_string(static_cast<int>(call.seconds)) +
                " s: if that rank sends as well before it receives, both wait forever: use sendrecv or isend, or let " +
                "one of them receive first");
  }
}

void ProgressWatch::look() {
  if (hang_action() == HangAction::kOff || !activity_now().is_stuck()) {
    looks_while_stuck_ = 0;
    return;
  }
  if (has_debugger()) return;
  // The survey of all ranks comes first; without an answer within some looks this rank speaks for itself.
  const int looks = looks_while_stuck_++ % kLooksBetweenSurveys;
  if (looks == 0 && start_survey_) return start_survey_();
  if (looks == (start_survey_ ? kLooksBeforeOwnReport : 0)) on_stuck_();  // (5): no survey came
}

}  // namespace mn
