/// The process as a member of a job: starts MPI and the log, watches the peers, and ends all ranks when one fails.
#pragma once

#include <functional>
#include <memory>

namespace mn {

/// The one member of the job in each process: the first object in main, destroyed last. Initializes MPI (with
/// MPI_THREAD_MULTIPLE if supported) and finalizes MPI, unless the program has initialized MPI.
///
/// Until its end, an uncaught exception, a fatal signal, or the silence of a peer ends every rank within seconds with
/// one message: rank, host and cause, under any launcher. Terminate handler and signal handlers catch the rank's own
/// end. A peer monitor notices the end of its neighbors: a thread with TCP connections to neighbors in a tree over the
/// ranks. Ranks exchange addresses and a random key over MPI at the start; afterwards the monitor makes no MPI call but
/// MPI_Abort. MN_PEER_TIMEOUT sets the seconds of silence that count as a loss (default 60; 0: no monitor, for
/// debuggers). Under mnlaunch, the end of a process before MPI is up also ends all ranks.
///
/// When the job ends badly, each rank writes its last 256 communicator calls to the folder MN_CALLS, or to OUT/calls of
/// a training job; on SIGUSR2 a rank writes them and goes on. `mnreport --calls` prints who waits for whom.
///
/// A watch, on a thread of its own, finds ranks waiting in communicator calls for ranks that never come. If the missing
/// ranks have left main, by return or exit(), one line names them, and the job ends within ten seconds. If ranks wait
/// for 60 s (MN_HANG_SECONDS) in calls that never meet, rank 0 prints the state of every rank, and the job ends. For
/// ranks outside of calls the limit without progress is ten times longer in a Trainer, thirty times longer elsewhere.
///
/// Signals left blocked by the parent process are unblocked, so a scheduler's notice arrives; SIGCHLD, if left ignored,
/// gets the default action. Settings of the program itself stay.
///
/// glibc's malloc keeps freed blocks of up to 32 MiB (mallopt), which saves page faults in each step, unless MALLOC_*_
/// or GLIBC_TUNABLES set malloc's options.
class Job {
 public:
  /// Collective over all ranks. Throws UsageError if a scheduler gives MPI no server (srun --mpi=none), if RANK and
  /// WORLD_SIZE (of torchrun) promise several ranks but MPI started this process alone, or if MN_* variables are
  /// malformed.
  Job(int& argc, char**& argv);
  /// Waits for all ranks, however late. While an exception unwinds, ends the job instead. If a caught exception left a
  /// CommunicationThread in a collective that never ends, all ranks end within seconds with run_job's status, or 0,
  /// without MPI_Finalize.
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

/// main() of a program: creates the Job, runs `body`, and turns an exception into one line and an exit status. If every
/// rank throws the same error, rank 0 alone reports. Usage: `return mn::run_job(argc, argv, [&](mn::Job&) {…; return
/// 0;});`
///
/// `body` returns the exit status, equal on every rank: if only some ranks return a nonzero status, all ranks end with
/// a line, within seconds if the rest go on. exit() within `body` counts as its return.
///
/// The line is written at the throw, and the stack does not unwind: a destructor on the way might wait forever, as
/// cudaFree waits for a collective that other ranks never join. So no caller may catch an exception of `body`: a
/// handler makes the stack unwind first.
int run_job(int argc, char** argv, const std::function<int(Job&)>& body);

}  // namespace mn
