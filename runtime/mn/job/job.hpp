/// Makes the process a member of a job. Starts MPI and the log, watches all ranks, and ends all of them when a rank
/// fails.
#pragma once

#include <functional>
#include <memory>

namespace mn {

/// Makes this process a member of the job. Each process has a single Job: the first object in main, destroyed last.
/// Unless the program has initialized MPI itself, the constructor initializes MPI (with MPI_THREAD_MULTIPLE if
/// supported), and the destructor finalizes MPI.
///
/// While a Job lives, an uncaught exception, a fatal signal, or the silence of a rank ends every rank within seconds,
/// under any launcher, with one message that tells rank, host and cause. A terminate handler and signal handlers notice
/// the rank's own end. A peer monitor notices the end of other ranks. It is a thread with TCP connections to the rank's
/// neighbors in a tree over all ranks. Ranks exchange addresses and public keys over MPI at the start; afterwards the
/// monitor makes no MPI call but MPI_Abort. MN_PEER_TIMEOUT sets the seconds of silence that count as a loss (default
/// 60; 0: no monitor, for debuggers). Under mnlaunch, a process that ends before MPI is up also ends all ranks.
///
/// When the job ends badly, each rank writes its last 256 communicator calls to the folder MN_CALLS, or to OUT/calls of
/// a training job; on SIGUSR2 a rank writes them and continues. `mnreport --calls` reads the files and prints the ranks
/// for which each rank waits.
///
/// A watch, on a separate thread, finds ranks that wait in communicator calls for ranks that never make the call. If
/// the missing ranks have left main, by return or exit(), one line names them, and the job ends within ten seconds. If
/// ranks wait for 60 s (MN_HANG_SECONDS) in calls that never meet, rank 0 prints the state of every rank, and the job
/// ends. A rank that is in no call may go without progress for ten times as long in a Trainer, and thirty times as long
/// elsewhere.
///
/// Signals that the parent process left blocked are unblocked, so a scheduler's signals arrive. If the parent left
/// SIGCHLD ignored, SIGCHLD gets its default action. Settings made by the program itself stay.
///
/// glibc's malloc keeps freed blocks of up to 32 MiB (mallopt), which saves page faults in each step, unless MALLOC_*_
/// or GLIBC_TUNABLES set malloc's options.
class Job {
 public:
  /// Joins the job. Collective over all ranks. Throws UsageError in three cases: if a scheduler gives MPI no server
  /// (srun --mpi=none), if RANK and WORLD_SIZE (of torchrun) promise several ranks but MPI started this process alone,
  /// and if MN_* variables are malformed.
  Job(int& argc, char**& argv);
  /// Leaves the job. Waits until all ranks have come to this point, however late. If an exception is unwinding the
  /// stack, ends the job instead. If a caught exception has left a CommunicationThread in a collective that never ends,
  /// all ranks end within seconds without MPI_Finalize, with run_job's exit status, or 0 without run_job.
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

/// Does the work of a program's main(): creates the Job, runs `body`, and turns an exception into one line and an exit
/// status. If every rank throws the same error, rank 0 alone reports. Usage: `return mn::run_job(argc, argv,
/// [&](mn::Job&) {…; return 0;});`
///
/// `body` must return the same exit status on every rank. If only some ranks return a nonzero status, all ranks end
/// with one line. Ranks that are still running end within seconds. exit() within `body` counts as its return.
///
/// If `body` throws, the line is written at the throw, and the stack does not unwind: a destructor might wait forever,
/// as cudaFree waits for a collective that other ranks never join. Therefore callers of run_job() must not catch
/// exceptions of `body`: if there is a handler, the stack unwinds before the line is written.
int run_job(int argc, char** argv, const std::function<int(Job&)>& body);

}  // namespace mn
