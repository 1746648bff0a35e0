#include <mn/job/peer_meeting.hpp>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>

#include <mn/core/json.hpp>
#include <mn/core/net/socket.hpp>

namespace mn {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PeerIntroduction, port, open, addresses, process)

namespace {

constexpr auto kLongestWait = std::chrono::milliseconds(50);  // longest pause between two rounds of run_until()

std::vector<Endpoint> endpoints_of(const PeerIntroduction& peer) {
  std::vector<Endpoint> endpoints;
  for (const auto& address : peer.addresses) endpoints.push_back({address, peer.port});
  return endpoints;
}

/// Returns the key of the connection to `peer`. If the peer's public key is invalid, returns a random key, and the
/// greeting then fails.
Key key_with(const KeyPair& own, const PeerIntroduction& peer) {
  return common_key(own, peer.open).value_or(random_key());
}

Call call_of(int from, int to) { return {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)}; }

}  // namespace

std::string PeerIntroduction::text() const { return json_text(*this); }

PeerIntroduction PeerIntroduction::parse(const std::string& text) {
  return parse_json(text, "a rank's introduction").get<PeerIntroduction>();
}

PeerMeeting::PeerMeeting(int rank, Fd listener, const KeyPair& keys, const std::optional<Neighbor>& parent,
                         const std::vector<Neighbor>& children)
    : rank_(rank), listener_(std::move(listener)) {
  for (const auto& [child, introduction] : children) children_.push_back({child, key_with(keys, introduction)});
  if (!parent) return;
  parent_ = parent->first;
  parent_key_.emplace(key_with(keys, parent->second));
  caller_.emplace([endpoints = endpoints_of(parent->second)] { return endpoints; }, call_of(rank, *parent_),
                  *parent_key_);
}

std::vector<std::pair<int, Fd>> PeerMeeting::run_until(Deadline deadline) {
  // A child that has sent its proof waits up to kGreetingTime longer for the parent's confirmation.
  while (!is_over() && Clock::now() < (unconfirmed_ ? deadline + kGreetingTime : deadline)) {
    if (parent_) call_parent();
    accept();
    greet();
    if (!is_over()) wait(Clock::now() + kLongestWait);
  }
  return std::move(met_);
}

bool PeerMeeting::is_over() const { return !parent_ && std::ranges::all_of(children_, &Child::is_here); }

void PeerMeeting::wait(Deadline until) {
  if (parent_ && !unconfirmed_) until = std::min(until, caller_->next_step());
  std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}, {unconfirmed_.get(), POLLIN, 0}};
  const auto add = [&](const Channel& channel) { entries.push_back({channel.fd(), channel.wanted_events(), 0}); };
  for (const Guest& guest : guests_) add(guest.channel);
  if (parent_) std::ranges::for_each(caller_->attempts(), [&](const Channel* attempt) { add(*attempt); });
  poll(entries.data(), entries.size(), milliseconds_until(until));
}

void PeerMeeting::accept() {
  for (std::size_t taken = 0; taken < kMaxGuests; ++taken) {  // the limit keeps new guests at least until greet()
    Fd socket = accept_waiting(listener_);
    if (!socket) return;
    if (guests_.size() == kMaxGuests) {  // (3): if possible, replaces a guest that has not called
      const auto silent = std::ranges::find(guests_, false, &Guest::has_called);
      guests_.erase(silent == guests_.end() ? guests_.begin() : silent);
    }
    guests_.push_back({Channel(std::move(socket)), false, Clock::now() + kGreetingTime});
    assert(guests_.size() <= kMaxGuests);  // (3)
  }
}

void PeerMeeting::greet() {
  const auto is_through = [this](Guest& guest) { return !greet(guest) || Clock::now() >= guest.until; };
  std::erase_if(guests_, is_through);
}

PeerMeeting::Child* PeerMeeting::child_of(const Guest& guest) {
  const Call call = guest.channel.call();
  const auto found = std::ranges::find(children_, static_cast<int>(call.from), &Child::rank);
  const bool is_expected = call.to == static_cast<std::uint32_t>(rank_) && found != children_.end() && !found->is_here;
  return is_expected ? &*found : nullptr;
}

/// Continues a guest's greeting. False if it has failed, or is complete and the guest is now a peer.
bool PeerMeeting::greet(Guest& guest) {
  Channel& channel = guest.channel;
  channel.progress();
  if (channel.is(Channel::State::kCalled)) {
    Child* child = child_of(guest);
    if (child == nullptr) return false;
    guest.has_called = true;
    SharedKey key(child->key);
    channel.answer(key);
  } else if (channel.is(Channel::State::kVerified)) {
    Child* child = child_of(guest);
    if (child == nullptr) return false;
    channel.open();
    Fd socket = channel.take_socket();
    constexpr char kConfirmation = 'h';  // (2): PeerByte::kHeartbeat
    if (socket && send(socket.get(), &kConfirmation, 1, MSG_NOSIGNAL) == 1) {
      child->is_here = true;
      meet(child->rank, std::move(socket));
    }
    return false;
  }
  return !channel.is(Channel::State::kClosed);
}

void PeerMeeting::call_parent() {
  if (unconfirmed_) {
    char answer = 0;
    const ssize_t got = recv(unconfirmed_.get(), &answer, 1, MSG_DONTWAIT);
    if (got == 1) {
      meet(*std::exchange(parent_, std::nullopt), std::move(unconfirmed_));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      unconfirmed_.reset();  // the parent had too many guests, so this rank calls again
    }
    return;
  }
  for (Channel* attempt : caller_->attempts()) attempt->progress();
  caller_->step(Clock::now());
  const std::unique_ptr<Channel> verified = caller_->take_verified();
  if (!verified) return;
  verified->open();
  assert(parent_);  // (2): the parent has not confirmed yet
  unconfirmed_ = verified->take_socket();
}

}  // namespace mn
