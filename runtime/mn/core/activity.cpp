#include <mn/core/activity.hpp>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include <mn/core/environment.hpp>

namespace mn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTimesLongest = 5;
constexpr std::int64_t kMaxHangSeconds = 7 * 86400;

struct Account {
  std::mutex mutex;
  std::vector<std::string> scopes;
  std::map<std::string, double> longest_s;  // longest time without progress in each state
  std::int64_t iteration = 0;
  Clock::time_point last = Clock::now();
};

Account& account() {
  static auto& the_account = *new Account;  // never destroyed, because exit handlers use it after main's end
  return the_account;
}

std::atomic<HangAction> action = HangAction::kAbort;

/// The caller must hold the mutex.
void progress(Account& all) {
  const auto now = Clock::now();
  if (!all.scopes.empty()) {
    double& longest = all.longest_s[all.scopes.back()];
    longest = std::max(longest, std::chrono::duration<double>(now - all.last).count());
  }
  all.last = now;
}

}  // namespace

double call_patience_s() {
  static const double seconds = [] {  // read only once, because a program may change its environment
    const auto given = environment_seconds("MN_HANG_SECONDS", 60, kMaxHangSeconds, "no watch");
    return given.count() == 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(given.count());
  }();
  return seconds;
}

ActivityScope::ActivityScope(std::string name) {
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  progress(all);
  all.scopes.push_back(std::move(name));
}

ActivityScope::~ActivityScope() {
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  progress(all);
  assert(!all.scopes.empty());
  all.scopes.pop_back();
}

void note_progress() {
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  progress(all);
}

void note_iteration(std::int64_t iteration) {
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  all.iteration = iteration;
  progress(all);
}

void discount_standstill(std::chrono::duration<double> time) {
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  all.last = std::min(all.last + std::chrono::duration_cast<Clock::duration>(time), Clock::now());
}

Activity activity_now() {
  Activity now;
  Account& all = account();
  const std::lock_guard lock(all.mutex);
  now.iteration = all.iteration;
  now.silent_s = std::chrono::duration<double>(Clock::now() - all.last).count();
  now.limit_s = std::numeric_limits<double>::infinity();
  if (all.scopes.empty()) return now;
  now.state = all.scopes.back();
  const auto longest = all.longest_s.find(now.state);
  now.limit_s = std::max(work_patience_s(), longest == all.longest_s.end() ? 0 : kTimesLongest * longest->second);
  return now;
}

void set_hang_action(HangAction wanted) noexcept { action = wanted; }
HangAction hang_action() noexcept { return action; }

}  // namespace mn
