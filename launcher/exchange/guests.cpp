// Handles guests, which are incoming connections during their greeting. A guest becomes a link (links.hpp) once it has
// told its number and proved that it knows the key.

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
    // An abstract socket name has no file permissions, so any user can connect to it.
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
  // Invariant 2: if the parent calls twice, only one of the calls is answered.
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
  // Invariant 2: this process gives up its own call to the parent before it answers the parent's call.
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
    // This process may call the parent again.
    if (answered_parent_ == guest.channel.get()) answered_parent_ = nullptr;
    guest.channel.reset();
  }
  std::erase_if(guests_, [](const Guest& guest) { return !guest.channel; });
}

}  // namespace mn::launcher
