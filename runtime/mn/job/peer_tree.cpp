// How the monitors of a job connect: each rank listens, tells the others over MPI where, and connects to its parent.
//
// A connection begins with the job's key, the rank that connects and the rank that it looks for; the parent answers
// with a heartbeat, or closes what is not for it. All ranks take part, and each step has a deadline, so a network that
// lets nothing through costs seconds and a warning, not the job.

#include <algorithm>
#include <cstring>
#include <sstream>

#include <sys/eventfd.h>

#include <mn/core/blocked_signals.hpp>
#include <mn/core/error.hpp>
#include <mn/core/net/interfaces.hpp>
#include <mn/core/net/random_key.hpp>
#include <mn/core/net/socket.hpp>
#include <mn/core/text.hpp>
#include <mn/job/peer_monitor.hpp>

namespace mn {
namespace {

constexpr auto kSetupTime = std::chrono::seconds(5);
constexpr auto kTimePerAddress = std::chrono::milliseconds(1500);
constexpr auto kHelloTime = std::chrono::seconds(1);

/// What ranks exchange over MPI before they can connect.
struct Introduction {
  std::uint16_t port = 0;
  std::string key;  // rank 0's counts
  std::vector<std::string> addresses;

  [[nodiscard]] std::string text() const {
    std::string line = std::to_string(port) + ' ' + key;
    for (const auto& address : addresses) line += ' ' + address;
    return line;
  }
  static Introduction parse(const std::string& text) {
    std::istringstream words(text);
    Introduction introduction;
    words >> introduction.port >> introduction.key;
    for (std::string address; words >> address;) introduction.addresses.push_back(address);
    return introduction;
  }
};

std::string random_key() {
  std::byte bytes[8];
  draw_random(bytes);
  return to_hex(bytes);
}

/// On any free port, for this host alone or for all.
Fd listen(Reach reach) {
  Fd listener = listen_on_port(0, reach);
  if (!listener) throw CommError("cannot listen for the peer monitor: no TCP port is free on this host");
  return listener;
}

}  // namespace

/// The first bytes of a connection. `to` distinguishes hosts that have the same address.
struct PeerMonitor::Hello {
  std::array<std::byte, 16> key;
  std::int32_t from;
  std::int32_t to;
};

PeerMonitor::PeerMonitor(const PeerMonitorOptions& options, const Exchange& exchange, OnLoss on_loss)
    : options_(options), on_loss_(std::move(on_loss)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  hosts_ = exchange(options.host);
  const bool one_host = std::count(hosts_.begin(), hosts_.end(), options.host) == options.size;
  const Fd listener = listen(one_host ? Reach::kThisHost : Reach::kAllHosts);
  Introduction own;
  own.port = port_of(listener);
  own.key = random_key();
  own.addresses = one_host ? std::vector<std::string>{"127.0.0.1"} : local_addresses();
  const auto introductions = exchange(own.text());
  const std::string key = Introduction::parse(introductions.front()).key;
  std::memcpy(key_.data(), key.data(), std::min(key.size(), key_.size()));

  const Deadline deadline = Clock::now() + kSetupTime;
  if (options.rank > 0) connect_to_parent(introductions);
  accept_children(listener, deadline);
  const auto is_deaf = [&](Peer& peer) {  // the parent's answer to our hello
    std::byte answer{};
    return peer.rank < options.rank && !receive_until(peer.socket, {&answer, 1}, deadline);
  };
  std::erase_if(peers_, is_deaf);
  if (options.rank > 0 && (peers_.empty() || peers_.front().rank > options.rank)) {
    const int parent = kTree.parent_of(options.rank);
    const auto there = Introduction::parse(introductions[static_cast<std::size_t>(parent)]);
    unreachable_ = "rank " + std::to_string(parent) + " (host " + hosts_[static_cast<std::size_t>(parent)] + ", port " +
                   std::to_string(there.port) + " of";
    for (const auto& address : there.addresses) unreachable_ += ' ' + address;
    unreachable_ += ')';
  }
  for (Peer& peer : peers_) peer.heard = Clock::now();
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

void PeerMonitor::connect_to_parent(const std::vector<std::string>& introductions) {
  const int parent = kTree.parent_of(options_.rank);
  const auto there = Introduction::parse(introductions[static_cast<std::size_t>(parent)]);
  const Hello hello{key_, options_.rank, parent};
  for (const auto& address : there.addresses) {
    Fd socket = connect_until(address, there.port, Clock::now() + kTimePerAddress);
    if (!socket || !send_bytes(socket, std::as_bytes(std::span(&hello, 1)))) continue;
    peers_.emplace_back(parent, hosts_[static_cast<std::size_t>(parent)], std::move(socket));
    return;
  }
}

void PeerMonitor::accept_children(const Fd& listener, Deadline deadline) {
  const auto children = kTree.children_of(options_.rank, options_.size);
  std::size_t missing = children.size();
  while (missing > 0) {
    Fd socket = accept_until(listener, deadline);
    if (!socket) return;  // the child says so itself
    Hello hello{};
    const auto bytes = std::as_writable_bytes(std::span(&hello, 1));
    if (!receive_until(socket, bytes, std::min<Deadline>(deadline, Clock::now() + kHelloTime))) continue;
    // (7)
    const bool known = hello.key == key_ && hello.to == options_.rank && std::ranges::count(children, hello.from) == 1;
    if (!known || !send_byte(socket, PeerByte::kHeartbeat)) continue;
    peers_.emplace_back(hello.from, hosts_[static_cast<std::size_t>(hello.from)], std::move(socket));
    --missing;
  }
}

}  // namespace mn
