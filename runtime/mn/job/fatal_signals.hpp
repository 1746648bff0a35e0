/// Handlers of fatal signals. Before the process ends, they tell the reason to the user and to the peers (neighboring
/// ranks). Job installs the handlers once the peer monitor runs, and removes them before it stops the monitor.
///
/// 1. A handler calls only async-signal-safe functions and allocates nothing: messages are formatted at installation.
/// 2. A handler passes a fault on to the handler that was installed before (for example by a sanitizer). If there was
///    none, the default action follows, so the exit status tells the signal, and a core is written. The faulting
///    instruction runs again, so the next handler sees the true address and registers.
/// 3. A handler writes its message only if no thread of this process has reported the end (claim_report()).
/// 4. On every thread the handler has its own stack (signal_stack.hpp), because a stack overflow leaves no room on the
///    thread's stack. Source: signal-safety(7).
#pragma once

#include <vector>

#include <mn/job/failure.hpp>
#include <mn/job/peer_monitor.hpp>

namespace mn {

/// Remembers the present handlers of faults, to which mn's handlers will pass faults on. Call the function before MPI
/// starts, because Open MPI installs handlers that print pages of text.
void remember_signal_handlers();

/// Installs the handlers. SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write one line and notify the peers. SIGTERM and
/// SIGINT notify the peers, and report a lost peer if the launcher has noticed the loss first. Then the signal takes
/// its earlier action. SIGUSR2 writes the last communicator calls, and the process continues. The program's own
/// handlers of SIGTERM, SIGINT and SIGUSR2 stay. The links must stay open until remove_signal_handlers().
void install_signal_handlers(const Speaker& speaker, const std::vector<PeerMonitor::Link>& links);
/// Restores the remembered handlers. A handler that the program has installed since then stays.
void remove_signal_handlers();

}  // namespace mn
