#include "supervise/supervise.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <utility>

#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/host_list.hpp>
#include <mn/core/net/key.hpp>
#include <mn/core/unix_time.hpp>

#include "supervise/hosts.hpp"
#include "supervise/status_file.hpp"
#include "supervise/step.hpp"

namespace mn::launcher {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWindow = std::chrono::hours(1);  // failures within this time are counted

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

void say(const std::string& text) { std::cerr << "mnlaunch supervise: " + text + "\n"; }

std::string counted(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// Whether the next start would end with `status`, too.
bool is_final(int status) {
  constexpr std::array kFinal = {0, kExitUsage, kExitRequeue, kExitCheckFailed, kExitCannotRun, kExitNotFound};
  return std::ranges::find(kFinal, status) != kFinal.end();
}

/// Whether the ranks died of a scheduler's signal before they could write a checkpoint.
bool died_of_notice(const StepEnd& end) {
  constexpr std::array kNotices = {128 + SIGHUP, 128 + SIGUSR1, 128 + SIGUSR2, 128 + SIGTERM};
  return end.reason.empty() && std::ranges::find(kNotices, end.status) != kNotices.end();
}

/// Sets MN_LAUNCH_KEY to a random key, for ranks to recognize each other without munge. srun passes the variable on.
void set_key() {
  constexpr const char* kLaunchKey = "MN_LAUNCH_KEY";
  if (!environment(kLaunchKey)) setenv(kLaunchKey, to_hex(random_key()).c_str(), 1);
}

class Supervisor {
 public:
  explicit Supervisor(const SuperviseOptions& options)
      : options_(options), command_(options.command, environment), active_(command_.hosts()) {
    const std::size_t kept_back = std::min(options_.spares, active_.size() - 1);
    const std::size_t wanted = std::min(command_.wanted_hosts().value_or(active_.size() - kept_back), active_.size());
    spares_.assign(active_.begin() + static_cast<std::ptrdiff_t>(wanted), active_.end());
    active_.resize(wanted);
    if (active_.size() < options_.min_hosts) {
      throw UsageError("supervise: " + counted(active_.size(), "host") + " to start on, and --min-nodes is " +
                       std::to_string(options_.min_hosts));
    }
    if (!command_.resumes()) say("without --resume auto a start after a failure begins anew");
    set_key();
  }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int run() {
    while (true) {
      StepEnd end = run_step();
      if (const int signal = scheduler_signal(); signal != 0) return end_after_signal(signal, end);
      // Invariant 4 (supervise.hpp): after srun -K has ended the remaining ranks, srun's own status is 143.
      if (command_.is_srun() && end.status > 128) end.status = end.first_failure.value_or(end.status);
      if (is_final(end.status)) return finish(end.status);
      if (died_of_notice(end)) return finish(kExitRequeue);
      if (const std::string why = why_not_again(end); !why.empty()) return give_up(why, end.status);
      // A signal came between two steps.
      if (const int signal = scheduler_signal(); signal != 0) {
        end.status = 128 + signal;
        return end_after_signal(signal, end);
      }
    }
  }

 private:
  StepEnd run_step() {
    reported_ = false;
    const std::string name = "mn-" + std::to_string(getpid()) + "-" + std::to_string(++attempts_);
    if (const std::string why = status_.renew(); !why.empty() && attempts_ == 1) say(why);
    started_at_ = unix_time();
    probes_.reset();
    const auto cancel = [&] { cancel_step(environment("SLURM_JOB_ID").value_or("0"), name); };
    const Words command = command_.on(active_, name, attempts_ > 1);
    const StepEnd end = launcher::run_step(
        command, [this] { look(); }, [this] { probe(); }, cancel);
    look();
    return end;
  }

  void look() {
    report_recovery();
    if (probes_) probes_->look();
  }

  void probe() { probes_.emplace(active_, command_.is_srun()); }

  /// After a failure, reports how long the recovery took, once the first iteration is complete.
  void report_recovery() {
    if (reported_ || attempts_ == 1) return;
    const auto progress = status_.read();
    if (!progress || progress->stepped == 0) return;
    reported_ = true;
    recovery_.start_s = progress->up - started_at_;
    recovery_.load_s = progress->loaded - progress->up;
    recovery_.first_step_s = progress->stepped - progress->loaded;
    lost_s_ += recovery_.all_s();
    const bool forgets = saved_ && *saved_ > progress->began;
    say("trains again after iteration " + std::to_string(progress->began) +
        (forgets ? ", although iteration " + std::to_string(*saved_) + " is saved: is there no --resume auto?; "
                 : ": ") +
        recovery_.text());
  }

  /// Prepares another start of the step. Returns why the step must not be started again, or an empty text.
  std::string why_not_again(const StepEnd& end) {
    const auto progress = status_.read();
    const double silent_s = progress ? status_.silent_s() : 0;  // the file's last change was training's last progress
    if (progress && progress->saved > progress->began) saved_ = std::max(saved_.value_or(0), progress->saved);
    // If a rank announced its end, the test of the hosts began then.
    if (!probes_) probe();
    const Words lost = probes_->lost();
    recovery_ = {.detect_s = std::max(silent_s - seconds(Clock::now() - end.failed_at), 0.0),
                 .tear_down_s = seconds(Clock::now() - end.failed_at)};
    say("attempt " + std::to_string(attempts_) + " ended with " + std::to_string(end.status) + how_far(progress) +
        (end.reason.empty() ? "" : ": " + end.reason) + (lost.empty() ? "" : "; lost " + compress_host_list(lost)));
    if (is_repeated(progress, lost.empty())) {
      return "it failed twice after iteration " + std::to_string(progress->iteration);
    }
    const auto now = Clock::now();
    failures_.push_back(now);
    // Old failures do not count: a job that runs for weeks may fail several times.
    while (now - failures_.front() > kWindow) failures_.pop_front();
    if (failures_.size() > options_.restarts) {
      return counted(failures_.size(), "failure") + " within an hour, and --restarts is " +
             std::to_string(options_.restarts);
    }
    return replace(lost);
  }

  [[nodiscard]] std::string how_far(const std::optional<RunProgress>& progress) const {
    if (progress) return " after iteration " + std::to_string(progress->iteration);
    return status_.exists() ? " before training" : "; how far it came is unknown";
  }

  /// Whether the job has failed twice at the same iteration, give or take one: rank 0 may end before it has written the
  /// failed rank's iteration.
  bool is_repeated(const std::optional<RunProgress>& progress, bool hosts_are_well) {
    const std::optional<std::int64_t> here =
        progress && hosts_are_well ? std::optional(progress->iteration) : std::nullopt;
    // A lost host explains the failure.
    const auto before = std::exchange(failed_at_, here);
    return here && before && std::abs(*here - *before) <= 1;
  }

  /// Replaces lost hosts by spare hosts. Returns why this is impossible, or an empty text.
  std::string replace(const Words& lost) {
    lost_.insert(lost_.end(), lost.begin(), lost.end());
    std::erase_if(active_, [&](const std::string& host) { return std::ranges::find(lost, host) != lost.end(); });
    for (std::size_t i = 0; i < lost.size() && !spares_.empty(); ++i) {
      active_.push_back(spares_.front());
      spares_.erase(spares_.begin());
    }
    if (active_.size() < std::max<std::size_t>(options_.min_hosts, 1)) {
      return counted(active_.size(), "host") + " left, and --min-nodes is " + std::to_string(options_.min_hosts);
    }
    assert(
        std::ranges::none_of(active_, [&](const auto& host) { return std::ranges::find(lost, host) != lost.end(); }));
    say("starts again on " + compress_host_list(active_) + ", " +
        counted(active_.size() * command_.ranks_per_host(), "rank"));
    return "";
  }

  int end_after_signal(int signal, const StepEnd& end) {
    say("a signal (" + std::to_string(signal) + ") asked for the end");
    // After a signal, Open MPI's mpiexec returns a status of its own.
    if (end.asks_for_requeue) return finish(kExitRequeue);
    const bool died = end.status == 128 + signal || died_of_notice(end);
    if (!died) return finish(end.status);
    return finish(signal == SIGINT ? 128 + SIGINT : kExitRequeue);
  }

  int give_up(const std::string& why, int status) {
    say("gives up: " + why);
    // The job can resume in another allocation, which may have enough hosts.
    const bool other_hosts_help = saved_ && active_.size() < options_.min_hosts;
    return finish(other_hosts_help ? kExitRequeue : status);
  }

  int finish(int status) {
    if (attempts_ == 1 && status == 0) return status;
    char minutes[32];
    std::snprintf(minutes, sizeof minutes, "%.1f", lost_s_ / 60);
    say("ends with " + std::to_string(status) + ": " + counted(attempts_, "attempt") + ", " +
        (lost_.empty() ? "no host lost" : "lost " + compress_host_list(lost_)) + ", " + minutes +
        " minutes until training went on");
    return status;
  }

  SuperviseOptions options_;
  StepCommand command_;
  Words active_, spares_, lost_;
  StatusFile status_;
  std::optional<HostProbes> probes_;
  std::size_t attempts_ = 0;
  std::deque<Clock::time_point> failures_;
  std::optional<std::int64_t> failed_at_;  // iteration of the last failure, if no host was lost
  std::optional<std::int64_t> saved_;      // newest iteration that an attempt has saved
  Recovery recovery_;
  bool reported_ = false;
  double started_at_ = 0;
  double lost_s_ = 0;
};

}  // namespace

const char* supervise_help() {
  return R"(usage: mnlaunch supervise [options] -- srun|mpiexec ... mnlaunch PROGRAM [ARG...]

Starts a step again, in the same allocation and without lost hosts, when it fails; for batch scripts.

  --restarts N   failures within an hour after which it gives up, if there is one more (3)
  --spares K     hosts that it keeps back, and that take the place of lost ones (0)
  --min-nodes M  with fewer hosts it gives up (1)
)";
}

SuperviseOptions parse_supervise(const Words& words) {
  SuperviseOptions options;
  const std::pair<std::string, std::size_t*> known[] = {
      {"--restarts", &options.restarts}, {"--spares", &options.spares}, {"--min-nodes", &options.min_hosts}};
  std::size_t i = 0;
  for (; i < words.size() && words[i] != "--" && words[i].starts_with('-'); ++i) {
    const auto equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const auto option = std::ranges::find(known, name, [](const auto& each) { return each.first; });
    if (option == std::end(known)) {
      throw UsageError("supervise: unknown option " + name + "; there are --restarts, --spares and --min-nodes");
    }
    if (equals == std::string::npos) ++i;
    const std::string value =
        equals == std::string::npos ? i < words.size() ? words[i] : "" : words[i].substr(equals + 1);
    *option->second = parse_count(name, value, 0);
  }
  if (i < words.size() && words[i] == "--") ++i;
  options.command.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(i, words.size())), words.end());
  return options;
}

int supervise(const SuperviseOptions& options) {
  static_cast<void>(scheduler_signal());  // from here on, signals go to the steps
  return Supervisor(options).run();
}

}  // namespace mn::launcher
