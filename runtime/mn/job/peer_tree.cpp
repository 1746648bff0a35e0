// How the monitors of a job connect: each rank listens, tells the others over MPI where, and connects to its parent.
//
// A connection begins with the job's key, the rank that connects and the rank that it looks for; the parent answers
// with a heartbeat, or closes what is not for it. All ranks take part, and each step has a deadline, so a network that
// lets nothing through costs seconds and a warning, not the job.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

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
constexpr std::size_t kMaxCallers = 64;  // with the eight children, who speak at once

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

/// A connection whose first bytes have not all come. All are heard at once: a stranger who says nothing holds up nobody.
struct PeerMonitor::Caller {
  Fd socket;
  Hello hello;
  std::size_t bytes;
  Deadline until;
};

/// Until there is something to read or to accept.
void PeerMonitor::wait_for(const Fd& listener, const std::vector<Caller>& callers, Deadline until) {
  std::vector<pollfd> entries{{listener.get(), POLLIN, 0}};
  for (const Caller& caller : callers) entries.push_back({caller.socket.get(), POLLIN, 0});
  poll(entries.data(), entries.size(), milliseconds_until(until));
}

/// What has come of it; false if no more will.
bool PeerMonitor::read_hello(Caller& caller) {
  const auto rest = std::as_writable_bytes(std::span(&caller.hello, 1)).subspan(caller.bytes);
  const ssize_t got = recv(caller.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
  if (got > 0) caller.bytes += static_cast<std::size_t>(got);
  const bool may_come = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return got > 0 || (may_come && Clock::now() < caller.until);
}

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

/// A child that does not come says so itself.
void PeerMonitor::accept_children(const Fd& listener, Deadline deadline) {
  const auto children = kTree.children_of(options_.rank, options_.size);
  std::size_t missing = children.size();
  std::vector<Caller> callers;
  while (missing > 0 && Clock::now() < deadline) {
    wait_for(listener, callers, std::min<Deadline>(deadline, Clock::now() + kHelloTime));
    for (std::size_t taken = 0; taken < kMaxCallers; ++taken) {  // so none of these is dropped before it is heard
      Fd socket = accept_waiting(listener);
      if (!socket) break;
      if (callers.size() == kMaxCallers) callers.erase(callers.begin());
      callers.push_back({std::move(socket), {}, 0, Clock::now() + kHelloTime});
    }
    std::erase_if(callers, [&](Caller& caller) {
      if (!read_hello(caller)) return true;
      if (caller.bytes < sizeof(Hello)) return false;
      const Hello& hello = caller.hello;
      // (8)
      const bool known =
          hello.key == key_ && hello.to == options_.rank && std::ranges::count(children, hello.from) == 1;
      if (!known || !send_byte(caller.socket, PeerByte::kHeartbeat)) return true;
      peers_.emplace_back(hello.from, hosts_[static_cast<std::size_t>(hello.from)], std::move(caller.socket));
      --missing;
      return true;
    });
  }
}

}  // namespace mn
