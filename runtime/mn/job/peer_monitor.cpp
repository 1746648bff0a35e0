#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/job/peer_monitor.hpp>

namespace mn {
namespace {

constexpr int kArity = 8;
constexpr auto kSetupTime = std::chrono::seconds(5);
constexpr auto kTimePerAddress = std::chrono::milliseconds(1500);
constexpr auto kHelloTime = std::chrono::seconds(1);
constexpr auto kFarewellTime = std::chrono::seconds(1);
constexpr auto kAnswerTime = std::chrono::seconds(2);
constexpr auto kPassingTime = std::chrono::milliseconds(300);  // less than kReportPatience: the answer must be in time

int parent_of(int rank) { return (rank - 1) / kArity; }

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
  unsigned char bytes[8];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    throw CommError(with_errno("cannot draw the peer monitor's key", errno));
  }
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

bool send_byte(const Fd& socket, PeerByte byte) { return send_bytes(socket, std::as_bytes(std::span(&byte, 1))); }

/// Signals are the program's: its threads take them, this one does not.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_ = {};
};

}  // namespace

bool has_answered(int socket, std::atomic<bool>& silent) noexcept {
  while (!silent) {
    PeerByte bytes[64];
    const ssize_t got = recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (got <= 0) silent = true;
    for (ssize_t i = 0; i < got; ++i) {
      if (bytes[i] == PeerByte::kReported || bytes[i] == PeerByte::kSilent) silent = true;
    }
  }
  return true;
}

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
  Introduction own;
  const Fd listener = listen_on_free_port(one_host, own.port);
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
    const int parent = parent_of(options.rank);
    const auto there = Introduction::parse(introductions[static_cast<std::size_t>(parent)]);
    unreachable_ = "rank " + std::to_string(parent) + " (host " + hosts_[static_cast<std::size_t>(parent)] + ", port " +
                   std::to_string(there.port) + " of";
    for (const auto& address : there.addresses) unreachable_ += ' ' + address;
    unreachable_ += ')';
  }
  for (Peer& peer : peers_) peer.heard = Clock::now();
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

PeerMonitor::~PeerMonitor() {
  stop_ = true;
  wake();
  thread_.join();
  send_to_all(PeerByte::kGoodbye);
  // Reading on until the peers leave too keeps a reset from overtaking the goodbye.
  for (const Peer& peer : peers_) shutdown(peer.socket.get(), SHUT_WR);
  const Deadline deadline = Clock::now() + kFarewellTime;
  for (const Peer& peer : peers_) {
    std::byte byte{};
    while (!peer.gone && receive_until(peer.socket, {&byte, 1}, deadline)) {
    }
  }
}

void PeerMonitor::connect_to_parent(const std::vector<std::string>& introductions) {
  const int parent = parent_of(options_.rank);
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
  const int first = options_.rank * kArity + 1;
  int missing = std::clamp(options_.size - first, 0, kArity);
  while (missing > 0) {
    Fd socket = accept_until(listener, deadline);
    if (!socket) return;  // the child says so itself
    Hello hello{};
    const auto bytes = std::as_writable_bytes(std::span(&hello, 1));
    if (!receive_until(socket, bytes, std::min<Deadline>(deadline, Clock::now() + kHelloTime))) continue;
    const bool known = hello.key == key_ && hello.to == options_.rank && hello.from >= first &&
                       hello.from < std::min(first + kArity, options_.size);
    if (!known || !send_byte(socket, PeerByte::kHeartbeat)) continue;
    peers_.emplace_back(hello.from, hosts_[static_cast<std::size_t>(hello.from)], std::move(socket));
    --missing;
  }
}

std::vector<PeerMonitor::Link> PeerMonitor::links() const {
  std::vector<Link> links;
  for (const Peer& peer : peers_) {
    links.push_back({peer.socket.get(), loss_message(peer, "its process died"), reports_loss_of(peer.rank), peer.spoke,
                     peer.silent});
  }
  return links;
}

bool PeerMonitor::reports_loss_of(int rank) const { return rank > options_.rank || (rank == 0 && options_.rank == 1); }

std::string PeerMonitor::loss_message(const Peer& peer, const std::string& how) const {
  return "lost rank " + std::to_string(peer.rank) + " on host " + peer.host + ": " + how + "; all ranks end";
}

void PeerMonitor::send_to_all(PeerByte byte) const noexcept {
  for (const Peer& peer : peers_) send_byte(peer.socket, byte);  // a peer that cannot take it is gone already
}

void PeerMonitor::send_to(int rank, PeerByte byte) const noexcept {
  for (const Peer& peer : peers_) {
    if (peer.rank == rank) send_byte(peer.socket, byte);
  }
}

void PeerMonitor::wake() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
}

bool PeerMonitor::may_report() noexcept {
  asking_ = true;
  wake();
  const Deadline deadline = Clock::now() + kAnswerTime;
  while (!granted_ && !reported_elsewhere_ && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return granted_ || !reported_elsewhere_;
}

void PeerMonitor::announce_report() const noexcept { announce(kReportPatience); }

void PeerMonitor::announce(std::chrono::milliseconds patience) const noexcept {
  for (const Peer& peer : peers_) {
    if (!*peer.silent) send_byte(peer.socket, PeerByte::kReported);
  }
  const auto answered = [](const Peer& peer) { return has_answered(peer.socket.get(), *peer.silent); };
  const Deadline deadline = Clock::now() + patience;
  while (!std::ranges::all_of(peers_, answered) && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void PeerMonitor::pass_report_on() {
  if (options_.silence) options_.silence();
  announce(kPassingTime);
  for (const Peer& peer : peers_) {
    if (peer.reported) send_byte(peer.socket, PeerByte::kSilent);
  }
}

void PeerMonitor::run() {
  Clock::time_point next_heartbeat = Clock::now();
  while (!stop_) {
    if (Clock::now() >= next_heartbeat) {
      send_to_all(PeerByte::kHeartbeat);
      next_heartbeat = Clock::now() + options_.heartbeat;
    }
    const Clock::time_point until = loss_ ? std::min(loss_->when, next_heartbeat) : next_heartbeat;
    if (!wait_for_bytes(until)) {
      // This process itself stood still (stopped, swapped out): what the others did meanwhile is unknown.
      for (Peer& peer : peers_) peer.heard = Clock::now();
    }
    for (Peer& peer : peers_) {
      if (!peer.gone) read_from(peer);
    }
    look_for_silence();
    if (asking_) ask(options_.rank);
    if (reported_elsewhere_) {
      pass_report_on();
      return on_loss_(std::nullopt);
    }
    if (loss_ && Clock::now() >= loss_->when) return on_loss_(loss_->message);
  }
}

bool PeerMonitor::wait_for_bytes(Clock::time_point until) {
  std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}};
  for (const Peer& peer : peers_) entries.push_back({peer.gone ? -1 : peer.socket.get(), POLLIN, 0});
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  poll(entries.data(), entries.size(), static_cast<int>(std::max<std::chrono::milliseconds::rep>(wait.count(), 0)));
  std::uint64_t wakes = 0;
  [[maybe_unused]] const auto drained = read(wake_.get(), &wakes, sizeof wakes);
  return Clock::now() < until + options_.timeout / 2;
}

void PeerMonitor::read_from(Peer& peer) {
  PeerByte bytes[64];
  while (true) {
    const ssize_t got = recv(peer.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return lose(peer, peer.terminated ? "it was terminated by a signal" : "its process died");
    for (ssize_t i = 0; i < got; ++i) handle(peer, bytes[i]);
  }
}

void PeerMonitor::handle(Peer& peer, PeerByte byte) {
  peer.heard = Clock::now();
  if (byte != PeerByte::kHeartbeat && byte != PeerByte::kGranted) *peer.spoke = true;
  if (byte == PeerByte::kGoodbye) peer.left = true;
  if (byte == PeerByte::kTerminated) peer.terminated = true;
  if (byte == PeerByte::kReported) peer.reported = reported_elsewhere_ = true;
  if (byte == PeerByte::kReported || byte == PeerByte::kSilent) *peer.silent = true;  // it silences itself first
  if (byte == PeerByte::kAsking) ask(peer.rank);
  if (byte == PeerByte::kGranted) grant();
}

/// Rank 0 grants what it is asked first; on the way to it, too, only the first request goes on.
void PeerMonitor::ask(int asker) {
  if (asker_) return;
  asker_ = asker;
  if (options_.rank == 0) return grant();
  send_to(parent_of(options_.rank), PeerByte::kAsking);
}

void PeerMonitor::grant() {
  if (!asker_) return;
  if (*asker_ == options_.rank) {
    granted_ = true;
  } else {
    send_to(*asker_, PeerByte::kGranted);
  }
}

void PeerMonitor::look_for_silence() {
  for (Peer& peer : peers_) {
    const auto silence = Clock::now() - peer.heard;
    if (peer.gone || peer.left || silence < options_.timeout) continue;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(silence).count();
    lose(peer, "no sign of life for " + std::to_string(seconds) + " s");
  }
}

void PeerMonitor::lose(Peer& peer, const std::string& how) {
  peer.gone = true;
  if (peer.left || loss_) return;
  const bool first = reports_loss_of(peer.rank) && !peer.terminated;
  loss_ = Loss{loss_message(peer, how), first ? Clock::now() : Clock::now() + options_.patience};
}

}  // namespace mn
