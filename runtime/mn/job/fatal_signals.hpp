/// Signals that end this process: the peers and the user must learn why before it is gone.
#pragma once

#include <vector>

#include <mn/job/failure.hpp>
#include <mn/job/peer_monitor.hpp>

namespace mn {

/// SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write one line and tell the peers; SIGTERM and SIGINT tell the peers,
/// and write the loss of a peer that the launcher noticed before this rank's monitor could say so. All then take their
/// default action. Signals that the program ignores or handles itself are left to it. The links must stay open until
/// remove_signal_handlers().
void install_signal_handlers(const Speaker& speaker, const std::vector<PeerMonitor::Link>& links);
void remove_signal_handlers();

/// True for the first caller, which is to report the loss of a peer; signal handlers ask too.
[[nodiscard]] bool claim_loss_report() noexcept;

}  // namespace mn
