#include <mn/job/start_watch.hpp>

#include <cerrno>
#include <cstdlib>
#include <exception>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mn/core/blocked_signals.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/net/socket.hpp>
#include <mn/job/standard_error.hpp>

namespace mn {
namespace {

constexpr char kUp = 'u';        // MPI is up at the sender
constexpr char kReported = 'r';  // the sender, or a different rank, reports the job's end

constexpr auto kBeforeReport = std::chrono::seconds(1);
constexpr auto kBeforeSilentEnd = std::chrono::seconds(3);

}  // namespace

StartWatch::StartWatch(const Speaker& speaker) : speaker_(speaker) {
  for (const auto& link : parse_start_links(environment(kStartLinksVariable).value_or(""))) {
    // A script between mnlaunch and the program may have opened a different file under this descriptor.
    if (link.inode == 0 || inode_of_socket(link.fd) != link.inode) continue;
    // A child process that calls exec(2) must not keep the connection open after this process ends.
    fcntl(link.fd, F_SETFD, FD_CLOEXEC);
    links_.push_back({.socket = Fd(link.fd), .reports = link.reports, .name = link.name});
  }
  unsetenv(kStartLinksVariable);
  if (links_.empty()) return;
  wake_ = Fd(eventfd(0, EFD_CLOEXEC));
  const BlockedSignals blocked;
  thread_ = std::jthread([this] { run(); });
}

StartWatch::~StartWatch() {
  if (links_.empty()) return;
  constexpr std::uint64_t kOne = 1;
  [[maybe_unused]] const auto woken = write(wake_.get(), &kOne, sizeof kOne);
  thread_.join();
  // After an exception the neighbors must keep watching, because this process may end before the peer monitor runs.
  if (std::uncaught_exceptions() == 0) send_to_all(kUp);
}

void StartWatch::announce_report() const noexcept { send_to_all(kReported); }

void StartWatch::send_to_all(char byte) const noexcept {
  for (const auto& link : links_) send_bytes(link.socket, std::as_bytes(std::span(&byte, 1)));
}

void StartWatch::run() {
  // Not poll(2): it takes no more entries than the limit of open files, and the limit may have been higher in mnlaunch.
  const Fd set(epoll_create1(EPOLL_CLOEXEC));
  if (!set) return;
  const auto add = [&](const Fd& fd, Link* link) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = link}};
    epoll_ctl(set.get(), EPOLL_CTL_ADD, fd.get(), &event);
  };
  add(wake_, nullptr);
  for (auto& link : links_) add(link.socket, &link);
  while (true) {
    if (loss_ && Clock::now() >= loss_->when) end(*loss_);
    const int patience_ms = loss_ ? milliseconds_until(loss_->when) : -1;
    epoll_event event{};
    if (epoll_wait(set.get(), &event, 1, patience_ms) <= 0) continue;
    auto* link = static_cast<Link*>(event.data.ptr);
    if (link == nullptr) return;
    read_from(*link);
    if (!link->is_open) epoll_ctl(set.get(), EPOLL_CTL_DEL, link->socket.get(), nullptr);
  }
}

void StartWatch::read_from(Link& link) {
  char byte = 0;
  const ssize_t got = recv(link.socket.get(), &byte, 1, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  link.is_open = false;
  if (got == 1 && byte == kReported) end({.name = link.name, .reports = false, .when = {}});
  if (got == 1) return;
  // The first loss counts. A later loss replaces it only if this rank must report the later loss but not the first.
  if (loss_ && (loss_->reports || !link.reports)) return;
  loss_ = {link.name, link.reports, Clock::now() + (link.reports ? kBeforeReport : kBeforeSilentEnd)};
}

void StartWatch::end(const Loss& loss) const {
  flush_output();
  silence_stderr();
  if (loss.reports) {
    report(speaker_,
           "lost " + loss.name + ": its process ended before MPI was up; look for its message; all ranks end");
    wait_until_shown();
  }
  send_to_all(kReported);
  std::_Exit(1);
}

}  // namespace mn
