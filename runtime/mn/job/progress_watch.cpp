#include <mn/job/progress_watch.hpp>

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include <unistd.h>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/blocked_signals.hpp>
#include <mn/core/log.hpp>
#include <mn/job/thread_stack.hpp>

namespace mn {
namespace {

constexpr auto kPeriod = std::chrono::seconds(1);
constexpr int kLooksBeforeOwnReport = 12;  // surveys take less than the looks between the second survey and this look
constexpr int kLooksBetweenSurveys = 60;
constexpr int kLooksBeforeSecondSurvey = 5;  // by then, all messages of a rank that has left have arrived
constexpr double kLeftPatience_s = 3.5;      // long enough that usually the first survey decides
constexpr double kSendPatience_s = 10;

}  // namespace

ProgressWatch::ProgressWatch(OwnState& own, Actions actions) : own_(own), actions_(std::move(actions)) {
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
    if (now - last > kStandstill || has_debugger(getpid())) {  // invariant 3: this time does not count
      discount_standstill(now - last);
      own_.discount(now - last);
    }
    last = now;
    if (stop.stop_requested()) return;
    warn_of_sends();
    look();
  }
}

/// Invariant 4: two ranks that both send before they receive wait forever if MPI's buffers are too small.
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
  own_.look();
  const RankState now = own_.now();
  const int left = actions_.ranks_left ? actions_.ranks_left() : 0;
  const bool may_wait_for_left = left > 0 && !now.call.empty() && now.seconds >= kLeftPatience_s;
  if ((!now.stuck && !may_wait_for_left) || std::exchange(ranks_left_, left) != left) looks_while_due_ = 0;
  if (!now.stuck && !may_wait_for_left) return;
  // The watch first starts a survey. If the rank is still stuck some looks later, on_stuck() reports.
  const int looks = looks_while_due_++ % kLooksBetweenSurveys;
  const bool asks = looks == 0 || looks == kLooksBeforeSecondSurvey;
  if (asks && actions_.start_survey) return actions_.start_survey();
  // Invariant 5: no survey has completed, so the rank reports by itself.
  if (now.stuck && looks == (actions_.start_survey ? kLooksBeforeOwnReport : 0)) actions_.on_stuck();
}

}  // namespace mn
