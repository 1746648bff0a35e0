#include <mn/job/job.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <mpi.h>
#include <unistd.h>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/communication_thread.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/inherited_signals.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/log.hpp>
#include <mn/job/end_note.hpp>
#include <mn/job/failure.hpp>
#include <mn/job/fatal_signals.hpp>
#include <mn/job/hang_report.hpp>
#include <mn/job/peer_monitor.hpp>
#include <mn/job/prepare.hpp>
#include <mn/job/progress_watch.hpp>
#include <mn/job/rank_state.hpp>
#include <mn/job/signal_stack.hpp>
#include <mn/job/standard_error.hpp>
#include <mn/job/start_watch.hpp>
#include <mn/job/thread_stack.hpp>

namespace mn {
namespace {

constexpr auto kAgreementTime = std::chrono::seconds(2);
constexpr auto kReturnTime = std::chrono::seconds(5);  // the same, once a rank has returned a nonzero status
constexpr auto kExitTime = std::chrono::seconds(1);    // all ranks must end in this time, once a rank has called exit()
constexpr const char* kAlone = " on this rank, and not on every other";

void start_log(const Speaker& speaker) { init_log({.rank = speaker.rank, .host = speaker.host, .file_prefix = ""}); }

constexpr int kThrown = std::numeric_limits<int>::max();  // the exit status of a rank whose program threw

/// Collective: returns the exit statuses of all ranks; `own` is this rank's status. Returns no value if MPI fails, or
/// if some rank has not called the function within `patience`. Without a `patience`, waits for all ranks.
std::optional<std::vector<int>> all_statuses(MPI_Comm comm, int own, std::optional<std::chrono::seconds> patience) {
  if (!mpi_is_up()) return std::vector{own};  // the program has finalized MPI, so each rank ends by itself
  auto all = std::make_unique<std::vector<int>>(static_cast<std::size_t>(size_of(comm)), own);
  const auto begin = std::chrono::steady_clock::now();
  MPI_Request request = MPI_REQUEST_NULL;
  int done = 0;
  bool is_well = MPI_Iallgather(MPI_IN_PLACE, 0, MPI_INT, all->data(), 1, MPI_INT, comm, &request) == MPI_SUCCESS;
  while (is_well) {
    is_well = MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    if (is_well && done != 0) return *all;
    if (patience && std::chrono::steady_clock::now() - begin > *patience) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static_cast<void>(all.release());  // MPI may still write to the statuses
  return {};
}

}  // namespace

class Job::Impl {
 public:
  Impl(int& argc, char**& argv) : speaker_{rank_of_environment(environment).value_or(0), host_name()} {
    reset_inherited_signals();
    keep_freed_memory();
    install_terminate_handler(speaker_, {});
    start_log(speaker_);
    const auto timeout = peer_timeout();
    static_cast<void>(call_patience_s());  // a malformed value is an error now, not in the training
    remember_signal_handlers();
    owns_mpi_ = !has_started_mpi();
    if (owns_mpi_) check_launcher();
    const auto watch = std::make_shared<StartWatch>(speaker_);  // until the monitor takes over
    FailureHooks while_starting;
    while_starting.announce_report = [watch] { watch->announce_report(); };
    install_terminate_handler(speaker_, while_starting);
    if (owns_mpi_) start_mpi(argc, argv);
    comm_ = Mpi::duplicate(MPI_COMM_WORLD);
    check_size(comm_.size());
    speaker_.rank = comm_.rank();
    size_ = comm_.size();
    start_log(speaker_);
    name_calls_writer(speaker_.rank, size_, speaker_.host);
    set_calls_folder(environment("MN_CALLS").value_or(""));
    prepare_stacks();
    own_.emplace(speaker_, main_thread_);
    if (timeout.count() > 0 && size_ > 1) start_monitor(timeout);
    start_progress_watch();
    install_terminate_handler(speaker_, failure_hooks());
    install_signal_handlers(speaker_, monitor_ ? monitor_->links() : std::vector<PeerMonitor::Link>{});
    watch_exit([this](int status) { end_by_exit(status); });
  }

  ~Impl() {
    if (std::uncaught_exceptions() > 0) {
      flush_output();
      end_all_ranks(speaker_, "an exception left the scope of mn::Job; all ranks end", failure_hooks(), 1);
    }
    if (!settled_) settle(0, "left main");
    finish(exit_code_);
    remove_terminate_handler();
  }

  [[nodiscard]] int rank() const noexcept { return speaker_.rank; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// Agrees with all ranks on the exit status, and returns it. If `exit_code` is not 0, waits for `patience` only,
  /// because the remaining ranks may be waiting for this rank in a call.
  int settle(int exit_code, const std::string& how, std::chrono::seconds patience = kReturnTime) {
    settled_ = true;
    exit_code_ = exit_code;
    if (exit_code == 0) {
      own_->leave(how);
      if (monitor_) monitor_->leave();
    }
    const auto all = all_statuses(comm_.get(), exit_code, exit_code == 0 ? std::nullopt : std::optional(patience));
    if (!all) end_alone(exit_code == 0 ? "MPI has failed after this rank " + how : how + kAlone);
    if (std::ranges::count(*all, exit_code) == std::ssize(*all)) return exit_code;
    if (std::ranges::find(*all, kThrown) != all->end()) {
      const auto bound = exit_soon(1);
      while (true) pause();  // the rank that threw reports it
    }
    return exit_code_ = first_status(*all);
  }

 private:
  void start_monitor(std::chrono::seconds timeout) {
    PeerMonitorOptions options{
        .rank = speaker_.rank,
        .size = size_,
        .host = speaker_.host,
        .timeout = timeout,
        .silence = silence_stderr,
        .survey = {.own = [this] { return text_of({own_->now(true)}); },
                   .held =
                       [](int rank, const std::string& host) {
                         return text_of({RankState{.ranks = {rank}, .hosts = {host}, .state = "under a debugger"}});
                       },
                   .merge = [this](const auto& texts) { return merge_states(texts, size_); },
                   .on_result = [this](const std::string& text) { report_hang(text); }}};
    options.heartbeat = std::min<std::chrono::milliseconds>(options.heartbeat, timeout / 3);
    monitor_.emplace(
        options, [this](const std::string& text) { return allgather_texts(comm_.get(), text); },
        [this](const std::optional<std::string>& message) { end_for_loss(message); });
    if (monitor_->unreachable().empty()) return;
    log_warning("the peer monitor cannot reach " + monitor_->unreachable() +
                ": if a rank dies, others may wait forever; allow TCP between the nodes");
  }

  void start_progress_watch() {
    ProgressWatch::Actions actions;
    actions.on_stuck = [this] {
      if (!monitor_ || !monitor_->is_judged_elsewhere()) report_hang(text_of({own_->now(true)}), true);
    };
    if (monitor_) {
      actions.start_survey = [this] { monitor_->start_survey(); };
      actions.ranks_left = [this] { return monitor_->ranks_left(); };
    }
    watch_.emplace(*own_, actions);
  }

  /// Judges the answers of a survey: reports a hang or ends the job. Rank 0 calls this on the monitor's thread. A rank
  /// whose survey did not complete calls this on the watch's thread.
  void report_hang(const std::string& text, bool is_cut_off = false) {
    HangContext job{.ranks = size_, .is_cut_off = is_cut_off};
    job.peer_patience_s =
        monitor_ ? static_cast<double>(peer_timeout().count()) : std::numeric_limits<double>::infinity();
    if (monitor_) job.host_of = [this](int rank) { return monitor_->host_of(rank); };
    const HangReport found = hang_report(text, job);
    if (found.message.empty()) return;
    const bool ends = found.is_over && (hang_action() == HangAction::kAbort || found.has_left);
    if (!ends && std::exchange(last_hang_, found.message) == found.message) return;  // no hang is reported twice
    if (!ends) {
      write_stderr(found.table);
      return report(speaker_, found.message + "; the job goes on");
    }
    end_all_ranks(speaker_, found.message + "; all ranks end", failure_hooks(), 1, found.table);
  }

  FailureHooks failure_hooks() {
    FailureHooks hooks;
    hooks.all_ranks_agree = [this] { return all_ranks_agree(); };
    hooks.finish = [this](int exit_code) { finish(exit_code); };
    if (monitor_) {
      hooks.may_report = [this] { return monitor_->may_report(); };
      hooks.announce_report = [this] { monitor_->announce_report(); };
    }
    return hooks;
  }

  /// Ends this rank after the loss of another rank. Without a `message`, a different rank has reported.
  void end_for_loss(const std::optional<std::string>& message) {
    if (message) {
      flush_output();
      end_all_ranks(speaker_, *message, failure_hooks(), 1);
    }
    silence_stderr();  // MPI's text on broken connections must not follow the line of the rank that reports
    const auto bound = exit_soon(1);
    write_calls("another rank ends the job");
    std::this_thread::sleep_for(std::chrono::seconds(2));  // the launcher usually ends all ranks before
    std::_Exit(1);
  }

  bool all_ranks_agree() {
    const auto all = all_statuses(comm_.get(), kThrown, kAgreementTime);
    return all && std::ranges::count(*all, kThrown) == std::ssize(*all);
  }

  /// Ends the job because some ranks still run, or because MPI has failed.
  [[noreturn]] void end_alone(const std::string& why) {
    const FailureHooks hooks = failure_hooks();
    while (hooks.may_report && !hooks.may_report()) pause();  // the monitor ends this process
    end_all_ranks(speaker_, why + "; all ranks end", hooks, exit_code_ == 0 ? 1 : exit_code_);
  }

  /// Runs when the program calls exit() while its Job lives. If all ranks call exit(), they leave the job together.
  void end_by_exit(int status) {
    exit_code_ = status;
    const std::string how = "exit(" + std::to_string(status) + ") was called";
    if (!pthread_equal(pthread_self(), main_thread_.thread)) {  // MPI cannot be finalized while main uses it
      end_alone(how + " by a thread beside main's" + kAlone);
    }
    settle(status, status == 0 ? "called exit(0)" : how, kExitTime);
    const auto bound = exit_code_ == 0 ? std::jthread() : exit_soon(exit_code_);  // MPI_Finalize may never return
    if (speaker_.rank == 0) write_end_note(how);
    finish(exit_code_);
  }

  /// Takes the first nonzero status in `all` as the status of all ranks.
  int first_status(const std::vector<int>& all) {
    std::size_t first = 0;
    while (all[first] == 0) ++first;
    std::size_t other = 0;
    while (all[other] == all[first]) ++other;
    if (speaker_.rank == 0) {
      report(speaker_, "status " + std::to_string(all[first]) + " on rank " + std::to_string(first) + " and " +
                           std::to_string(all[other]) + " on rank " + std::to_string(other) +
                           "; every rank ends with " + std::to_string(all[first]));
    }
    return all[first];
  }

  /// Collective: true on every rank if no rank still communicates in the background.
  bool all_ranks_are_done() {
    int done = CommunicationThread::wait_for_all(kAgreementTime) ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &done, 1, MPI_INT, MPI_MIN, comm_.get());
    return done != 0;
  }

  void finish(int exit_code) {
    ignore_exit();
    const bool done = !mpi_is_up() || all_ranks_are_done();
    remove_signal_handlers();
    watch_.reset();
    monitor_.reset();
    comm_.reset();
    if (!done) end_all_ranks(exit_code);  // MPI_Finalize might never return
    if (owns_mpi_ && mpi_is_up()) MPI_Finalize();
  }

  const SignalStack signal_stack_;  // for the main thread, which pthread_create() did not start
  Speaker speaker_;
  int size_ = 1;
  int exit_code_ = 0;
  bool settled_ = false;
  bool owns_mpi_ = false;
  Mpi comm_;
  WatchedThread main_thread_;
  std::optional<OwnState> own_;
  std::string last_hang_;
  std::optional<PeerMonitor> monitor_;
  std::optional<ProgressWatch> watch_;
};

Job::Job(int& argc, char**& argv) : impl_(std::make_unique<Impl>(argc, argv)) {}
Job::~Job() = default;
int Job::rank() const noexcept { return impl_->rank(); }
int Job::size() const noexcept { return impl_->size(); }

int run_job(int argc, char** argv, const std::function<int(Job&)>& body) {
  Job job(argc, argv);
  const int exit_code = body(job);  // not caught: the terminate handler reports an exception before the stack unwinds
  // A launcher may then end the slower ranks by SIGTERM (srun --kill-on-bad-exit); this must not count as a loss.
  if (exit_code == kExitRequeue) std::signal(SIGTERM, SIG_IGN);
  const std::string status = std::to_string(exit_code);
  return job.impl_->settle(exit_code, exit_code == 0 ? "left main (status 0)" : "run_job's body returned " + status);
}

}  // namespace mn
