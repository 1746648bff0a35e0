#include <mn/job/peer_monitor.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mn/job/thread_stack.hpp>

namespace mn {
namespace {

constexpr auto kFarewellTime = std::chrono::seconds(1);
constexpr auto kAnswerTime = std::chrono::seconds(2);
constexpr auto kPassingTime = std::chrono::milliseconds(300);  // below kReportPatience, so the answer is in time
constexpr auto kHushTime = std::chrono::milliseconds(50);      // for the lost rank's neighbors to silence stderr

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

PeerMonitor::~PeerMonitor() {
  stop_ = true;
  wake();
  thread_.join();
  send_to_all(PeerByte::kGoodbye);
  // Invariant 2 (peer_monitor.hpp): reads until the peers leave, because a TCP reset must not overtake the goodbye.
  for (const Peer& peer : peers_) shutdown(peer.socket.get(), SHUT_WR);
  const Deadline deadline = Clock::now() + kFarewellTime;
  for (const Peer& peer : peers_) {
    std::byte byte{};
    while (!peer.gone && receive_until(peer.socket, {&byte, 1}, deadline)) {
    }
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

void PeerMonitor::send_to_all(PeerByte byte, int except) const noexcept {
  for (const Peer& peer : peers_) {
    if (peer.rank != except) send(peer, byte);  // errors are ignored: a peer that cannot receive is already gone
  }
}

void PeerMonitor::send_to(int rank, PeerByte byte) const noexcept {
  for (const Peer& peer : peers_) {
    if (peer.rank == rank) send(peer, byte);
  }
}

void PeerMonitor::wake() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
}

bool PeerMonitor::may_report() noexcept {
  asking_ = true;
  wake();
  const Deadline begin = Clock::now();
  // The monitor's thread asks rank 0. If the tree of connections is broken, no answer comes.
  while (!granted_ && !reported_elsewhere_ &&
         Clock::now() < begin + kAnswerTime + (hushed_ ? options_.patience : std::chrono::milliseconds(0))) {
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
  Deadline next_heartbeat = Clock::now();
  while (!stop_) {
    if (Clock::now() >= next_heartbeat) {
      send_to_all(PeerByte::kHeartbeat);
      next_heartbeat = Clock::now() + options_.heartbeat;
    }
    // Until loss_->when, a rank closer to the lost rank, or a rank with a better reason, may report.
    Deadline until = loss_ ? std::min(loss_->when, next_heartbeat) : next_heartbeat;
    if (survey_) until = std::min(until, survey_->until);
    if (!wait_for_bytes(until)) {
      // Invariant 4: this process stood still, so the silence is not the peers' fault.
      for (Peer& peer : peers_) peer.heard = Clock::now();
    }
    for (Peer& peer : peers_) {
      if (!peer.gone) read_from(peer);
      if (!peer.gone) send_rest(peer);
    }
    look_for_silence();
    if (asking_) ask(options_.rank);
    if (leaving_.exchange(false)) send_to_all(PeerByte::kLeft);
    if (surveying_.exchange(false)) begin_survey(options_.rank);
    if (survey_ && (survey_->awaited == 0 || Clock::now() >= survey_->until)) end_survey();
    if (reported_elsewhere_) {
      pass_report_on();
      return on_loss_(std::nullopt);
    }
    if (loss_ && Clock::now() >= loss_->when) return on_loss_(loss_->message);
  }
}

bool PeerMonitor::wait_for_bytes(Deadline until) {
  std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}};
  for (const Peer& peer : peers_) {
    const short events = peer.unsent.empty() ? POLLIN : POLLIN | POLLOUT;
    entries.push_back({peer.gone ? -1 : peer.socket.get(), events, 0});
  }
  poll(entries.data(), entries.size(), milliseconds_until(until));
  std::uint64_t wakes = 0;
  [[maybe_unused]] const auto drained = read(wake_.get(), &wakes, sizeof wakes);
  // If poll() returned too late, this process itself stood still.
  return Clock::now() < until + options_.timeout / 2;
}

void PeerMonitor::read_from(Peer& peer) {
  PeerByte bytes[64];
  while (true) {
    const ssize_t got = recv(peer.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    // The kernel closes a dying process's connections at once. A goodbye would have been read before (invariant 2).
    if (got <= 0) return lose(peer, peer.terminated ? "it was terminated by a signal" : "its process died");
    for (ssize_t i = 0; i < got; ++i) {
      peer.frame ? take_answer(peer, static_cast<char>(bytes[i])) : handle(peer, bytes[i]);
    }
  }
}

void PeerMonitor::handle(Peer& peer, PeerByte byte) {
  peer.heard = Clock::now();
  constexpr std::array kOfTheLiving = {PeerByte::kHeartbeat, PeerByte::kGranted, PeerByte::kSurvey, PeerByte::kSurveyed,
                                       PeerByte::kLeft};
  if (std::ranges::find(kOfTheLiving, byte) == kOfTheLiving.end()) *peer.spoke = true;
  if (byte == PeerByte::kGoodbye) peer.left = true;
  if (byte == PeerByte::kTerminated) peer.terminated = true;
  if (byte == PeerByte::kReported) peer.reported = reported_elsewhere_ = true;
  if (byte == PeerByte::kReported || byte == PeerByte::kSilent) *peer.silent = true;  // its stderr is silent
  if (byte == PeerByte::kLost) hush();
  if (byte == PeerByte::kAsking) ask(peer.rank);
  if (byte == PeerByte::kGranted) grant();
  if (byte == PeerByte::kLeft) ++ranks_left_;
  if (byte == PeerByte::kLeft) send_to_all(PeerByte::kLeft, peer.rank);
  if (byte == PeerByte::kSurvey) begin_survey(peer.rank);
  if (byte == PeerByte::kSurveyed) peer.frame = "";
}

void PeerMonitor::hush() {
  if (hushed_.exchange(true)) return;
  if (options_.silence) options_.silence();
  send_to_all(PeerByte::kLost);
}

/// Rank 0 grants the first request to report the end. Other ranks pass the first request on to their parent.
void PeerMonitor::ask(int asker) {
  if (asker_) return;
  asker_ = asker;
  if (options_.rank == 0) return grant();
  send_to(kTree.parent_of(options_.rank), PeerByte::kAsking);
}

void PeerMonitor::grant() {
  if (!asker_) return;
  if (*asker_ == options_.rank) {
    granted_ = true;
  } else {
    send_to(*asker_, PeerByte::kGranted);
  }
}

bool PeerMonitor::is_held(const Peer& peer) { return peer.process != 0 && has_debugger(peer.process); }

void PeerMonitor::leave() noexcept {
  leaving_ = true;
  wake();
}

void PeerMonitor::look_for_silence() {
  for (Peer& peer : peers_) {
    const auto silence = Clock::now() - peer.heard;
    // Invariant 2: a peer may be silent after its goodbye.
    if (peer.gone || peer.left || silence < options_.timeout) continue;
    const bool is_held_now = is_held(peer);
    if (std::exchange(peer.was_held, is_held_now) || is_held_now) {  // (8): once released, gets the full time again
      peer.heard = Clock::now();
      continue;
    }
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(silence).count();
    lose(peer, "no sign of life for " + std::to_string(seconds) + " s");
  }
}

void PeerMonitor::lose(Peer& peer, const std::string& how) {
  peer.gone = true;
  if (peer.left || loss_) return;
  // Invariant 3: launchers send SIGTERM to all ranks, so a terminated peer may not be the cause.
  const bool first = reports_loss_of(peer.rank) && !peer.terminated;
  hush();
  loss_ = Loss{loss_message(peer, how), Clock::now() + (first ? kHushTime : options_.patience)};
}

}  // namespace mn
