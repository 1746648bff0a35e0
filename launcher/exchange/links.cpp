#include "exchange/links.hpp"

#include <algorithm>
#include <cassert>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace mn::launcher {
namespace {

using std::chrono::milliseconds;
using Kind = Peer::Kind;
using State = Channel::State;

constexpr milliseconds kBeforeCallingChildren{1000};
constexpr milliseconds kMaxWait{1000};

Fd ended_connection() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return Fd();
  close(ends[1]);
  return Fd(ends[0]);
}

Call call_to(const Group& group, const Peer& peer) {
  // Both ends compute an equal pair, by which the listening end finds the link (link_of()).
  const bool within_node = !group.is_leader();
  const int from = within_node ? group.intra_rank : group.node;
  const int to = within_node ? 0 : peer.kind == Kind::kUp ? kNodeTree.parent_of(group.node) : peer.id;
  return {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)};
}

}  // namespace

Links::Links(const Group& group, NodeListener listener, OnMessage on_message, OnLoss on_loss)
    : group_(group), on_message_(std::move(on_message)), on_loss_(std::move(on_loss)), local_(std::move(listener)) {
  call_children_at_ = Clock::now() + kBeforeCallingChildren;
  if (!group.is_root()) links_.push_back({.peer = {Kind::kUp, 0}, .channel = {}, .caller = {}, .waiting = {}});
  if (group.is_leader()) {
    for (int rank = 1; rank < group.intra_size; ++rank) {
      links_.push_back({.peer = {Kind::kMember, rank}, .channel = {}, .caller = {}, .waiting = {}});
    }
    for (const int child : kNodeTree.children_of(group.node, group.nodes)) {
      links_.push_back({.peer = {Kind::kChild, child}, .channel = {}, .caller = {}, .waiting = {}});
    }
    if (group.nodes > 1) listen_for_nodes();
  }
  if (Link* up = find({Kind::kUp, 0})) up->caller = caller_of(up->peer);
}

std::unique_ptr<Caller> Links::caller_of(const Peer& peer) {
  const Call call = call_to(group_, peer);
  // Leaders call each other by TCP: an abstract socket name is invisible to other nodes.
  if (!group_.is_leader()) {
    return std::make_unique<Caller>([this] { return endpoints_of_leader(group_); }, call, local_keys_);
  }
  const auto targets = [this, node = static_cast<int>(call.to)] { return endpoints_of_node(group_, node); };
  return std::make_unique<Caller>(targets, call, *group_.keys);
}

void Links::listen_for_nodes() {
  // Invariant 1: if no port is free, this leader cannot listen, but can still call its neighbors.
  for (const auto port : ports_of(group_, group_.node)) {
    listener_ = listen_on_port(port);
    if (!listener_) continue;
    port_ = port;
    return;
  }
}

std::vector<std::pair<Peer, Fd>> Links::duplicate_connections() const {
  const int least = local_.files ? local_.files->least_kept : 0;
  std::vector<std::pair<Peer, Fd>> duplicates;
  for (const auto& link : links_) {
    if (!link.channel) continue;
    const bool is_open = link.channel->is(State::kOpen);
    Fd duplicate = is_open ? Fd(fcntl(link.channel->fd(), F_DUPFD_CLOEXEC, least)) : ended_connection();
    if (duplicate) duplicates.emplace_back(link.peer, std::move(duplicate));
  }
  return duplicates;
}

void Links::send(const Peer& to, std::string_view message) {
  // Invariant 3: a lost peer does not come again.
  Link* link = find(to);
  if (link == nullptr || link->is_lost || link->is_weak()) return;
  if (link->channel && link->channel->is(State::kOpen)) {
    link->channel->send(message);
    link->channel->flush();
  } else if (!link->channel) {
    link->waiting.emplace_back(message);
  }
}

void Links::run_until(const std::function<bool()>& done, Deadline deadline) {
  while (true) {
    const Deadline now = Clock::now();
    // Messages that came before the deadline count: deliver them after the last step, too.
    step(now);
    deliver();
    if (done() || now >= deadline) return;
    wait(next_step(deadline));
  }
}

void Links::flush(Deadline deadline) {
  const auto is_sent = [](const Link& link) {
    return !link.channel || !link.channel->is(State::kOpen) || link.channel->flush();
  };
  run_until([&] { return std::ranges::all_of(links_, is_sent); }, deadline);
}

void Links::step(Deadline now) {
  if (now >= call_children_at_) call_late_children();
  greet_guests(now);
  for (auto& link : links_) {
    if (is_calling(link)) link.caller->step(now);
  }
  take_called();
}

void Links::call_late_children() {
  call_children_at_ = Deadline::max();
  for (auto& link : links_) {
    // Invariants 1 and 2: each late child is called once. If the child's own call comes meanwhile, that call counts.
    if (link.peer.kind != Kind::kChild || link.channel) continue;
    link.caller = caller_of(link.peer);
  }
}

Deadline Links::next_step(Deadline latest) const {
  Deadline next = latest;
  bool is_complete = true;
  for (const auto& link : links_) {
    is_complete = is_complete && link.channel;
    if (is_calling(link)) next = std::min(next, link.caller->next_step());
  }
  for (const auto& guest : guests_) next = std::min(next, guest.until);
  return is_complete ? next : std::min(next, call_children_at_);
}

void Links::wait(Deadline until) {
  std::vector<pollfd> entries;
  std::vector<Channel*> channels;
  const auto add = [&](Channel* channel) {
    if (channel->is(State::kClosed)) return;
    entries.push_back({channel->fd(), channel->wanted_events(), 0});
    channels.push_back(channel);
  };
  for (auto& link : links_) {
    if (link.channel) add(link.channel.get());
    if (link.caller) std::ranges::for_each(link.caller->attempts(), add);
  }
  for (auto& guest : guests_) add(guest.channel.get());
  // New callers wait in the queues of the listening sockets, so strangers cannot use up memory and descriptors.
  const bool is_full = guests_.size() >= kMaxGuests;
  for (const Fd* listener : {&local_.socket, &listener_}) {
    if (*listener && !is_full) entries.push_back({listener->get(), POLLIN, 0});
  }
  if (poll(entries.data(), entries.size(), milliseconds_until(until, kMaxWait)) <= 0) return;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    if (entries[i].revents != 0) channels[i]->progress();
  }
  if (!is_full) {
    accept_from(local_.socket, true);
    accept_from(listener_, false);
  }
}

bool Links::is_calling(const Link& link) const {
  if (!link.caller) return false;
  if (link.peer.kind != Kind::kChild) return answered_parent_ == nullptr;
  // If the child is calling, the child's connection counts, and this process does not call.
  return std::ranges::none_of(guests_, [&](const Guest& guest) {
    return !guest.is_local && guest.channel->call().from == static_cast<std::uint32_t>(link.peer.id);
  });
}

void Links::take_called() {
  for (auto& link : links_) {
    if (!link.caller) continue;
    if (auto channel = link.caller->take_verified()) install(link, std::move(channel));
  }
}

void Links::install(Link& link, std::unique_ptr<Channel> channel) {
  if (link.peer.kind == Kind::kUp && answered_parent_ == channel.get()) failure_ = link.caller->failure();
  assert(!link.channel);  // invariant 3: a peer connects only once
  link.caller.reset();
  link.channel = std::move(channel);
  link.channel->open();
  for (const auto& message : std::exchange(link.waiting, {})) {
    if (!link.is_weak()) link.channel->send(message);
  }
  link.channel->flush();
  close_when_all_are_here();
}

void Links::close_when_all_are_here() {
  // Invariant 6: while this process listens, ranks of a second job get an answer instead of a time-out.
  if (takes_extras_) return;
  const auto is_here = [](const Link& other) { return other.peer.kind != Kind::kMember || other.channel; };
  // Frees the socket's name for the next job.
  if (std::ranges::all_of(links_, is_here)) local_.socket.reset();
}

void Links::deliver() {
  for (auto& link : links_) {
    const bool is_member = link.peer.kind == Kind::kMember;
    const bool is_cut_off = is_member ? !local_.failure.empty() : link.caller && link.caller->is_hopeless();
    if (is_cut_off && !link.is_lost) {
      link.is_lost = true;
      on_loss_(link.peer, false);
    }
    if (!link.channel || link.is_lost) continue;
    while (auto message = link.channel->receive()) {
      if (!link.is_weak()) on_message_(link.peer, std::move(*message));
    }
    const bool is_refused = link.is_weak() && link.peer.kind == Kind::kChild;  // invariant 5: counts as lost
    if (!is_refused && !link.channel->is(State::kClosed)) continue;
    // Invariant 3: the channel stays in the link, so no later call can replace the channel.
    link.is_lost = true;
    on_loss_(link.peer, is_refused);
  }
}

}  // namespace mn::launcher
