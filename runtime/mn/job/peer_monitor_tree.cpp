// Connects the peer monitors of a job. Each step has a deadline, so a network that blocks all connections costs some
// seconds and a warning, but does not stop the job.

#include <mn/job/peer_monitor.hpp>

#include <algorithm>

#include <sys/eventfd.h>
#include <unistd.h>

#include <mn/core/blocked_signals.hpp>
#include <mn/core/error.hpp>
#include <mn/core/net/interfaces.hpp>
#include <mn/core/text.hpp>
#include <mn/job/peer_meeting.hpp>

namespace mn {
namespace {

constexpr auto kSetupTime = std::chrono::seconds(5);

Fd listen(Reach reach) {
  Fd listener = listen_on_port(0, reach);
  if (!listener) throw CommError("cannot listen for the peer monitor: no TCP port is free on this host");
  return listener;
}

}  // namespace

PeerMonitor::PeerMonitor(const PeerMonitorOptions& options, const Exchange& exchange, OnLoss on_loss)
    : options_(options), on_loss_(std::move(on_loss)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  hosts_ = exchange(options.host);
  meet_neighbors(exchange);
  for (Peer& peer : peers_) peer.heard = Clock::now();
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

void PeerMonitor::meet_neighbors(const Exchange& exchange) {
  const bool one_host = std::count(hosts_.begin(), hosts_.end(), options_.host) == options_.size;
  Fd listener = listen(one_host ? Reach::kThisHost : Reach::kAllHosts);
  const KeyPair keys = new_key_pair();
  const PeerIntroduction own{.port = port_of(listener),
                             .open = keys.open,
                             .addresses = one_host ? std::vector<std::string>{"127.0.0.1"} : local_addresses(),
                             .process = getpid()};
  const auto introductions = exchange(own.text());
  const auto neighbor = [&](int rank) {
    return PeerMeeting::Neighbor(rank, PeerIntroduction::parse(introductions[static_cast<std::size_t>(rank)]));
  };
  std::optional<PeerMeeting::Neighbor> parent;
  if (options_.rank > 0) parent = neighbor(kTree.parent_of(options_.rank));
  std::vector<PeerMeeting::Neighbor> children;
  for (const int child : kTree.children_of(options_.rank, options_.size)) children.push_back(neighbor(child));

  PeerMeeting meeting(options_.rank, std::move(listener), keys, parent, children);
  // A child that could not connect warns by itself (unreachable_).
  for (auto& [rank, socket] : meeting.run_until(Clock::now() + kSetupTime)) {
    const auto r = static_cast<std::size_t>(rank);
    peers_.emplace_back(rank, hosts_[r], std::move(socket));
    if (hosts_[r] == options_.host) peers_.back().process = PeerIntroduction::parse(introductions[r]).process;
  }
  const auto is_parent = [&](const Peer& peer) { return peer.rank < options_.rank; };
  if (!parent || std::ranges::any_of(peers_, is_parent)) return;
  const auto& [rank, there] = *parent;
  unreachable_ = "rank " + std::to_string(rank) + " (host " + hosts_[static_cast<std::size_t>(rank)] + ", port " +
                 std::to_string(there.port) + " of " + join(there.addresses, " ") + ")";
}

}  // namespace mn
