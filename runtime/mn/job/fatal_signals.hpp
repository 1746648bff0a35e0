/// Signals that end this process: the peers and the user must learn the reason first. Job installs the handlers once
/// the monitor runs, and removes them before the monitor.
///
/// 1. A handler calls only async-signal-safe functions and allocates nothing: messages are formatted at installation.
/// 2. A handler passes a fault on to the earlier handler (a sanitizer's, a profiler's), else to the default action: the
///    exit status is the signal's, and a core is written. The faulting instruction runs again, so the next handler sees
///    the true address and registers.
/// 3. A handler writes its message only if no thread of this process has reported the end (claim_report()).
/// 4. On every thread the handler has its own stack (signal_stack.hpp), because a stack overflow leaves no room.
///    Source: signal-safety(7).
#pragma once

#include <vector>

#include <mn/job/failure.hpp>
#include <mn/job/peer_monitor.hpp>

namespace mn {

/// Remembers the present handlers of faults, to which our handlers will pass faults on. Called before MPI starts: Open
/// MPI adds handlers that print pages wherever the program has none.
void remember_signal_handlers();

/// SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write one line and notify the peers. SIGTERM and SIGINT notify the
/// peers, and report a lost peer if the launcher noticed the loss before this rank's monitor. Then all signals take
/// their earlier action. SIGUSR2 writes the last calls, and the process goes on. The program's own actions of SIGTERM,
/// SIGINT and SIGUSR2 stay. The links must stay open until remove_signal_handlers().
void install_signal_handlers(const Speaker& speaker, const std::vector<PeerMonitor::Link>& links);
/// Restores the remembered handlers, unless the program has replaced ours.
void remove_signal_handlers();

}  // namespace mn
