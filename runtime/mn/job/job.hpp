/// The process as a member of a job: starts MPI and the log, watches the peers, and ends all ranks when one fails.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

namespace mn {

/// One for each process, first in main, destroyed last. It initializes MPI (with MPI_THREAD_MULTIPLE where MPI has it)
/// unless the program has, and finalizes what it initialized.
///
/// From then on an uncaught exception, a fatal signal, or the silence of a peer ends every rank within seconds with one
/// message that names rank, host and cause, whatever the launcher: a terminate handler and signal handlers here, and a
/// peer monitor (a thread that holds TCP connections to neighbors in a tree over the ranks; ranks exchange addresses
/// and a random key over MPI at the start; afterwards it makes no MPI call but MPI_Abort). MN_PEER_TIMEOUT sets the
/// seconds of silence that count as a loss (default 60; 0: no monitor, for debuggers). Under mnlaunch, a rank whose
/// process ends before MPI is up ends the others as well.
///
/// When the job ends badly, each rank writes its last 256 calls of communicators to the folder that MN_CALLS names, or
/// to OUT/calls of a training job; on SIGUSR2 it does so and goes on. `mnreport --calls` says who waits for whom.
///
/// A watch (another thread) finds ranks that wait in communicators' calls for others that never come. Where those have
/// left main, by return or exit(), one line names them, and the job ends within ten seconds. Where ranks wait in calls
/// that never meet, for 60 s (MN_HANG_SECONDS), rank 0 writes where every rank is, and the job ends. Who waits for
/// ranks that are outside of calls is patient: for ten times that without progress in a Trainer, else thirty times.
///
/// Signals that the parent has left blocked are unblocked, so that a scheduler's notice arrives, and SIGCHLD, if the
/// parent has left it ignored, has its default action. What the program has set itself before stays.
///
/// It also has glibc's malloc keep freed memory of up to 32 MiB a block (mallopt), which saves page faults in each
/// step, unless MALLOC_*_ or GLIBC_TUNABLES set that.
class Job {
 public:
  /// Collective over all ranks. Throws UsageError if this process runs under a scheduler that gives MPI no server
  /// (srun --mpi=none), if its variables (torchrun's RANK and WORLD_SIZE) say that it is one of several ranks and MPI
  /// started it alone, or if MN_* variables are malformed.
  Job(int& argc, char**& argv);
  /// Waits for the other ranks, which may come much later, unless an exception unwinds: then it ends the job. Where a
  /// rank has caught an exception that left a CommunicationThread behind in a collective that never ends, all ranks end
  /// within seconds, with run_job's status or 0, without MPI_Finalize.
  ~Job();
  Job(const Job&) = delete;             ///< not copyable
  Job& operator=(const Job&) = delete;  ///< not copyable

  /// This process's rank in MPI_COMM_WORLD.
  [[nodiscard]] int rank() const noexcept;
  /// The number of ranks in MPI_COMM_WORLD.
  [[nodiscard]] int size() const noexcept;

 private:
  friend int run_job(int argc, char** argv, const std::function<int(Job&)>& body);
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// main() for programs: makes the Job, runs `body`, and turns an exception into one line and an exit status. Errors
/// that every rank throws are reported by rank 0 alone. Usage: `return mn::run_job(argc, argv, [&](mn::Job&) {…;
/// return 0;});`
/// The body's result is the exit status, the same on every rank: a result other than 0 on some ranks alone ends all
/// with one line, within seconds where the others go on. exit() within the body counts as its result.
///
/// The line is written where the exception is thrown, and the stack does not unwind: a destructor on the way may wait
/// forever, as cudaFree does for a collective that other ranks never join. So nothing outside may catch what `body`
/// throws; a handler there makes the stack unwind first.
int run_job(int argc, char** argv, const std::function<int(Job&)>& body);

/// Reports `error` as the terminate handler does and ends all ranks; does not return.
[[noreturn]] void fail_job(std::exception_ptr error);

}  // namespace mn
