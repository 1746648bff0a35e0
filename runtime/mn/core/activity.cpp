#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <mn/core/activity.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTimesLongest = 5;
constexpr std::int64_t kMaxHangSeconds = 7 * 86400;

struct State {
  std::string name;
  double patience_s;
  double first_s;
};

/// The process's, as the log is.
struct Account {
  std::mutex mutex;
  std::vector<State> scopes;
  std::map<std::string, double> longest_s;  // without progress, by state
  std::set<std::string> stepped;            // states that made a step
  std::int64_t iteration = 0;
  Clock::time_point last = Clock::now();
};

Account& account() {
  static Account the_account;
  return the_account;
}

std::atomic<std::string (*)()> call_source = nullptr;
std::atomic<HangAction> action = HangAction::kAbort;

/// The time since the last progress is that of the innermost state. The mutex is held.
void progress(Account& all) {
  const auto now = Clock::now();
  if (!all.scopes.empty()) {
    double& longest = all.longest_s[all.scopes.back().name];
    longest = std::max(longest, std::chrono::duration<double>(now - all.last).count());
  }
  all.last = now;
}

/// The mutex is held.
void step(Account& all) {
  progress(all);
  if (!all.scopes.empty()) all.stepped.insert(all.scopes.back().name);
}

/// MN_HANG_SECONDS in place of what a scope says.
double patience_s(std::chrono::seconds given) {
  static const auto wanted = hang_seconds();
  if (wanted == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(wanted.value_or(given.count()));
}

}  // namespace

std::optional<std::int64_t> hang_seconds() {
  const auto seconds = environment_int("MN_HANG_SECONDS");
  if (!seconds || (*seconds >= 0 && *seconds <= kMaxHangSeconds)) return seconds;
  throw UsageError("MN_HANG_SECONDS is " + std::to_string(*seconds) + ": use 1 to " + std::to_string(kMaxHangSeconds) +
                   " seconds, or 0 for no watch");
}

ActivityScope::ActivityScope(std::string name, std::chrono::seconds patience, std::chrono::seconds first) {
  const double seconds = patience_s(patience), first_s = patience_s(first);
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  progress(all);
  all.scopes.push_back({std::move(name), seconds, first_s});
}

ActivityScope::~ActivityScope() {
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  step(all);
  all.scopes.pop_back();
}

void note_progress() {
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  step(all);
}

void note_iteration(std::int64_t iteration) {
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  all.iteration = iteration;
  step(all);
}

void discount_standstill(std::chrono::duration<double> time) {
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  all.last = std::min(all.last + std::chrono::duration_cast<Clock::duration>(time), Clock::now());
}

Activity activity_now() {
  Activity now;
  if (const auto source = call_source.load()) now.call = source();
  {
    Account& all = account();
    const std::lock_guard lock(all.mutex);
    now.iteration = all.iteration;
    if (all.scopes.empty()) return now;
    now.state = all.scopes.back().name;
    now.silent_s = std::chrono::duration<double>(Clock::now() - all.last).count();
    const auto longest = all.longest_s.find(now.state);
    now.limit_s =
        std::max(all.scopes.back().patience_s, longest == all.longest_s.end() ? 0 : kTimesLongest * longest->second);
    if (now.call.empty() && !all.stepped.contains(now.state))
      now.limit_s = std::max(now.limit_s, all.scopes.back().first_s);
  }
  return now;
}

void set_call_source(std::string (*source)()) { call_source = source; }
void set_hang_action(HangAction wanted) noexcept { action = wanted; }
HangAction hang_action() noexcept { return action; }

}  // namespace mn
