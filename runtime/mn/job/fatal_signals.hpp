/// Signals that end this process: the peers and the user must learn why before it is gone.
///
/// Job installs the handlers on each rank when its monitor runs, and removes them before the monitor goes.
///
/// Invariants:
/// 1. A handler calls async-signal-safe functions alone (write, poll, send, recv, raise, …), and allocates nothing: its
///    messages are made when it is installed.
/// 2. It then hands a fault on: to the handler that was there before (a sanitizer's, a profiler's), else to the default
///    action, so the exit status is the signal's, and a core is written. A faulting instruction runs again for that, so
///    the handler that takes the fault sees its own address and registers.
/// 3. A handler writes its message only if no thread of this process has reported the end (claim_report()).
/// 4. On every thread it runs on a stack of its own (signal_stack.hpp), because a stack overflow leaves no other.
///
/// Cost: none until a signal comes.
/// Source: signal-safety(7).
#pragma once

#include <vector>

#include <mn/job/failure.hpp>
#include <mn/job/peer_monitor.hpp>

namespace mn {

/// The present handlers of faults are those to which ours will hand on. Called before MPI starts: Open MPI adds
/// handlers that print pages, where there are none.
void remember_signal_handlers();

/// SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write one line and notify the peers; SIGTERM and SIGINT notify the
/// peers, and write the loss of a peer that the launcher noticed before this rank's monitor did. All then take the
/// action that they had. Terminations that the program ignores or handles itself are left to it. The links must stay
/// open until remove_signal_handlers(). SIGUSR2, where it has the default action, writes the last calls
/// (flight_recorder.hpp), and the process goes on.
void install_signal_handlers(const Speaker& speaker, const std::vector<PeerMonitor::Link>& links);
/// The remembered handlers return, where ours still are.
void remove_signal_handlers();

}  // namespace mn
