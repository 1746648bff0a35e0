// Guests are incoming connections during their greeting. A guest becomes a link (links.hpp) after telling a number and
// proving knowledge of the key.

#include <cassert>
#include <chrono>

#include "exchange/group.hpp"
#include "exchange/links.hpp"

namespace mn::launcher {
namespace {

using Kind = Peer::Kind;
using State = Channel::State;

constexpr std::chrono::milliseconds kGreetingLimit{5000};

}  // namespace

void Links::accept_from(const Fd& listener, bool is_local) {
  if (!listener) return;
  while (guests_.size() < kMaxGuests) {
    Fd connection = accept_waiting(listener);
    if (!connection) return;
    // Any user can connect to an abstract socket name: it has no file permissions.
    if (is_local && !is_own_users(connection)) continue;
    guests_.push_back({std::make_unique<Channel>(std::move(connection)), is_local, Clock::now() + kGreetingLimit});
    guests_.back().channel->progress();  // the greeting may be here already
  }
}

Links::Link* Links::link_of(const Guest& guest) {
  const Call call = guest.channel->call();
  const auto from = static_cast<int>(call.from);
  Link* link = nullptr;
  if (guest.is_local) {
    if (call.to == 0) link = find({Kind::kMember, from});
  } else if (call.to == static_cast<std::uint32_t>(group_.node)) {
    const bool is_parent = group_.node > 0 && from == kNodeTree.parent_of(group_.node);
    link = find(is_parent ? Peer{Kind::kUp, 0} : Peer{Kind::kChild, from});
  }
  if (link == nullptr || link->channel) return nullptr;
  // Invariant 2 (links.hpp): if the parent calls twice, only one of the calls is answered.
  const bool is_second = answered_parent_ != nullptr && answered_parent_ != guest.channel.get();
  return link->peer.kind == Kind::kUp && is_second ? nullptr : link;
}

void Links::greet(Guest& guest) {
  if (!guest.channel->is(State::kCalled) && !guest.channel->is(State::kVerified)) return;
  const bool is_verified = guest.channel->is(State::kVerified);
  Link* link = link_of(guest);
  const bool is_extra = takes_extras_ && link == nullptr && guest.is_local && guest.channel->call().to == 0;  // (6)
  if (link == nullptr && !is_extra) return guest.channel->close("no rank or node with that number is expected here");
  if (is_verified && is_extra) {
    link = &links_.emplace_back();
    link->peer = {Kind::kMember, static_cast<int>(member_count()) + 1};
  }
  if (is_verified) return install(*link, std::move(guest.channel));
  // Invariant 2: before this process answers the parent's call, this process's own call to the parent ends.
  if (link != nullptr && link->peer.kind == Kind::kUp) {
    assert(answered_parent_ == nullptr || answered_parent_ == guest.channel.get());
    answered_parent_ = guest.channel.get();
    link->caller->give_up();
  }
  Keys& shared = *group_.keys;
  guest.channel->answer(guest.is_local ? local_keys_ : shared);
}

void Links::greet_guests(Deadline now) {
  for (auto& guest : guests_) {
    if (now >= guest.until) guest.channel->close("it does not finish its greeting");
    greet(guest);
    if (!guest.channel || !guest.channel->is(State::kClosed)) continue;
    if (answered_parent_ == guest.channel.get()) answered_parent_ = nullptr;
    guest.channel.reset();
  }
  std::erase_if(guests_, [](const Guest& guest) { return !guest.channel; });
}

}  // namespace mn::launcher
