/// How a rank reports its own end and takes the job with it.
#pragma once

#include <exception>
#include <functional>
#include <string>

namespace mn {

/// Who speaks in messages: "mn: rank 2 (host vn1): …".
struct Speaker {
  int rank = 0;
  std::string host;
};

/// What a running job lends to its failing rank.
struct FailureHooks {
  /// True if every rank comes here within a moment: the error is everybody's, and MPI can end in an orderly way.
  std::function<bool()> all_ranks_agree;
  /// Leaves the job in an orderly way: farewell to the peers, MPI_Finalize.
  std::function<void()> finish;
  /// Tells the peers that this rank has reported its end itself.
  std::function<void()> tell_peers;
};

/// Sets the terminate handler, which reports the uncaught exception and ends all ranks. The hooks may be empty.
void install_terminate_handler(const Speaker& speaker, FailureHooks hooks);
/// Sets handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, which write one line and re-raise with the default
/// action.
void install_signal_handlers(const Speaker& speaker);
/// Undoes both.
void remove_failure_handlers();

/// Sockets to which the signal handlers write `byte` each; they must stay open until this is called again.
void set_signal_farewell(const int* sockets, int count, char byte);

/// One line on stderr in a single write.
void report(const Speaker& speaker, const std::string& message);

/// Ends this process and, where MPI is up, all others: MPI_Abort, and _exit should that not return within two seconds.
[[noreturn]] void end_all_ranks(int exit_code);

}  // namespace mn
