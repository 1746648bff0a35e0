#include "supervise/step.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/fd.hpp>

namespace mn::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::array kPassedToStep = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
constexpr int kLookMs = 100;
constexpr auto kTimeToEnd = 1s;
constexpr auto kTimeToDie = 1s;

constexpr std::int64_t kSameNotice_ms = 200;  // timeout(1), for example, sends a signal twice
constexpr std::int64_t kFirstNotice_ms = 1000;
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

// Global, because a handler gets only the signal.
std::atomic<int> first_signal = 0;
std::atomic<std::int64_t> first_at_ms = 0;
std::array<std::atomic<std::int64_t>, NSIG> last_at_ms = {};
std::atomic<pid_t> passed_to = 0;

std::int64_t now_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000 + 1;
}

/// Sends SIGUSR1 in the first second after the first signal, later `signal` itself. srun and Open MPI's mpiexec pass
/// SIGUSR1 to the ranks, which save a checkpoint and end. Other signals are ignored, or end the ranks.
void send_to_step(int signal) {
  const bool is_first = now_ms() - first_at_ms <= kFirstNotice_ms;
  if (const pid_t process = passed_to; process > 0) kill(process, is_first ? SIGUSR1 : signal);
}

/// A signal handler: calls only lock-free atomics, clock_gettime(2) and kill(2).
void pass_on(int signal) {
  const int saved_errno = errno;
  const std::int64_t now = now_ms();
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) first_at_ms = now;
  const std::int64_t before = last_at_ms[static_cast<std::size_t>(signal)].exchange(now);
  if (before == 0 || now - before > kSameNotice_ms) send_to_step(signal);
  errno = saved_errno;
}

/// Whether supervise and the step ignore `signal`, as their parent did: SIGHUP under nohup, SIGINT in the background.
bool stays_ignored(int signal) {
  struct sigaction action = {};
  if (signal != SIGHUP && signal != SIGINT) return false;
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void install_handlers() {
  struct sigaction action = {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  for (const int signal : kPassedToStep) {
    if (!stays_ignored(signal)) sigaction(signal, &action, nullptr);
  }
}

/// Whether `line` is the last line of a rank (mn::Speaker::line), perhaps after a label.
bool announces_end(std::string_view line) {
  return line.find("mn: rank ") != std::string_view::npos && line.ends_with("all ranks end");
}

bool says_requeue(std::string_view line) { return line.ends_with(", requeue the job"); }

/// Returns 3 for srun's line "srun: error: vn1: tasks 2-3: Exited with exit code 3".
std::optional<int> status_of_ranks(std::string_view line) {
  constexpr std::string_view kSrun = "srun: error: ", kRanks = ": task", kExited = "Exited with exit code ";
  // srun's line may follow a rank's text without line end.
  const std::size_t begin = line.find(kSrun);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t ranks = line.find(kRanks, begin);
  const std::size_t colon = ranks == std::string_view::npos ? ranks : line.find(": ", ranks + kRanks.size());
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view how = line.substr(colon + 2);
  int status = 1;  // for any other reason, such as "Out Of Memory"
  if (how.starts_with(kExited)) {
    std::from_chars(how.data() + kExited.size(), how.data() + how.size(), status);
    return status;
  }
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const std::string name = strsignal(signal);
    if (how == name || how == name + " (core dumped)") return 128 + signal;
  }
  return status;
}

[[noreturn]] void execute(const Words& command, int stderr_end) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // the step must end even if supervise is killed
  // The launcher is not in the terminal's foreground process group, so a read would stop it.
  if (isatty(STDIN_FILENO) != 0) {
    if (const int none = open("/dev/null", O_RDONLY); none >= 0) dup2(none, STDIN_FILENO);
  }
  dup2(stderr_end, STDERR_FILENO);
  for (const int signal : kPassedToStep) {
    if (!stays_ignored(signal)) std::signal(signal, SIG_DFL);
  }
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  _exit(kExitNotFound);
}

class Step {
 public:
  explicit Step(const Words& command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(with_errno("supervise: cannot make a pipe", errno));
    stderr_ = Fd(ends[0]);
    const Fd write_end(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    process_ = fork();
    if (process_ < 0) throw Error(with_errno("supervise: cannot start a process", errno));
    if (process_ == 0) execute(command, write_end.get());
    passed_to = process_;
    if (const int signal = first_signal; signal != 0) send_to_step(signal);  // the signal came before the step
  }

  StepEnd wait(const std::function<void()>& look, const std::function<void()>& on_failure,
               const std::function<void()>& cancel) {
    StepEnd end;
    int status = 0;
    while (waitpid(process_, &status, WNOHANG) != process_) {
      pollfd readable{stderr_.get(), POLLIN, 0};
      poll(&readable, 1, kLookMs);
      // The step has closed its standard error, and poll() above returns at once.
      if ((readable.revents & POLLHUP) != 0 && (readable.revents & POLLIN) == 0) poll(nullptr, 0, kLookMs);
      // Only the first line gives the reason; later lines are consequences.
      const bool was_well = end.reason.empty();
      read_lines(end);
      if (was_well && !end.reason.empty()) on_failure();
      look();
      if (!end.reason.empty()) press(end, cancel);
    }
    passed_to = 0;
    read_lines(end);
    if (end.reason.empty()) end.failed_at = Clock::now();
    end.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return end;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void read_lines(StepEnd& end) {
    std::array<char, 1 << 14> piece;
    for (ssize_t got = 0; (got = read(stderr_.get(), piece.data(), piece.size())) > 0;) {
      const std::string_view text(piece.data(), static_cast<std::size_t>(got));
      for (std::string_view left = text; !left.empty();) {
        const ssize_t written = write(STDERR_FILENO, left.data(), left.size());
        if (written <= 0 && errno != EINTR) break;
        left.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
      }
      rest_ += text;
      for (std::size_t at = 0; (at = rest_.find('\n')) != std::string::npos; rest_.erase(0, at + 1)) {
        const std::string line = rest_.substr(0, at);
        end.asks_for_requeue = end.asks_for_requeue || says_requeue(line);
        if (!end.first_failure) end.first_failure = status_of_ranks(line);
        if (!end.reason.empty() || !announces_end(line)) continue;
        end.reason = line.substr(line.find("mn: rank ") + 4);
        end.failed_at = Clock::now();
      }
      // Without line ends, for example a progress bar, the text might grow forever.
      if (rest_.size() > 1 << 16) rest_.clear();
    }
  }

  void press(const StepEnd& end, const std::function<void()>& cancel) {
    const auto waited = Clock::now() - end.failed_at;
    // A launcher may wait forever for the ranks on a lost host.
    if (pressed_ == 0 && waited > kTimeToEnd) {
      ++pressed_;
      kill(process_, SIGTERM);
    } else if (pressed_ == 1 && waited > kTimeToEnd + kTimeToDie) {
      ++pressed_;
      cancel();
      kill(process_, SIGKILL);
    }
  }

  pid_t process_ = -1;
  Fd stderr_;
  std::string rest_;  // after the last line end
  int pressed_ = 0;   // 1: the launcher got SIGTERM; 2: also SIGKILL
};

}  // namespace

int scheduler_signal() {
  static const bool installed = (install_handlers(), true);
  return installed ? first_signal.load() : 0;
}

StepEnd run_step(const Words& command, const std::function<void()>& look, const std::function<void()>& on_failure,
                 const std::function<void()>& cancel) {
  return Step(command).wait(look, on_failure, cancel);
}

}  // namespace mn::launcher
