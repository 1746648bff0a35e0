#include <mn/core/net/caller.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mn {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{2};  ///< pause after the first round over all targets; doubles after each round
constexpr milliseconds kLongestPause{50};
constexpr milliseconds kHeadStart{150};  ///< time of an attempt before the next target is tried beside it
constexpr milliseconds kMaxForOne{5000};
constexpr milliseconds kBetweenLookUps{1000};
constexpr milliseconds kBeforeWeakCalls{2000};

/// True if `why` is a usual failure of a call that comes too early: the peer does not listen yet, or its queue of
/// callers is full, or another job's mnlaunch listens on the port and has no process with the called number.
bool is_early(const std::string& why) {
  return why == std::strerror(ECONNREFUSED) || why == std::strerror(EAGAIN) || why == std::strerror(ECONNRESET) ||
         why == kOtherEndClosed;
}

}  // namespace

Caller::Caller(std::function<std::vector<Endpoint>()> find_targets, Call call, Keys& keys)
    : find_targets_(std::move(find_targets)), call_(call), keys_(keys), pause_(kFirstPause) {}

void Caller::end_attempts(Deadline now) {
  for (auto& attempt : attempts_) {
    if (now >= attempt.until && !attempt.channel->is(Channel::State::kClosed)) {
      attempt.channel->close("no answer in " + std::to_string(kMaxForOne.count() / 1000) + " s");
    }
    if (attempt.channel->is(Channel::State::kClosed)) note_failure(attempt.target, attempt.channel->why());
  }
  std::erase_if(attempts_, [](const Attempt& attempt) { return attempt.channel->is(Channel::State::kClosed); });
}

void Caller::step(Deadline now) {
  const bool was_under_way = !attempts_.empty();
  end_attempts(now);
  const bool is_in_pause = cursor_ == 0;
  // If all attempts so far have failed, the next attempt begins at once.
  if (was_under_way && attempts_.empty() && !is_in_pause) next_ = now;
  if (now < next_) return;
  // The peer's addresses are looked up only now, because a name server may be slow, and because most peers call this
  // process first. After addresses were found, they are not looked up again.
  if (targets_.empty()) targets_ = find_targets_();
  if (targets_.empty()) {
    failure_ = "its name leads to no address";
    next_ = now + kBetweenLookUps;
    return;
  }
  for (; cursor_ < targets_.size(); ++cursor_) {
    if (std::ranges::find(attempts_, cursor_, &Attempt::target) != attempts_.end()) continue;
    const std::size_t before = attempts_.size();
    begin(cursor_, now);
    if (attempts_.size() == before) continue;  // the attempt failed at once
    ++cursor_;
    next_ = now + kHeadStart;
    return;
  }
  cursor_ = 0;
  next_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
}

void Caller::begin(std::size_t target, Deadline now) {
  const Endpoint& to = targets_[target];
  Fd socket = begin_connection(to);
  if (!socket) return note_failure(target, std::strerror(errno));
  if (to.address.starts_with('@') && !is_own_users(socket)) {
    strangers_.insert(target);
    return note_failure(target, "a process of another user listens there");
  }
  const Call call{call_.from, call_.to, is_weak_turn(target, now)};
  attempts_.push_back({target, now + kMaxForOne, std::make_unique<Channel>(std::move(socket), call, keys_)});
}

bool Caller::is_weak_turn(std::size_t target, Deadline now) {
  const auto found = rejections_.find(target);
  if (found == rejections_.end() || now < found->second.weak_from || !keys_.weak_key()) return false;
  return found->second.was_weak = !found->second.was_weak;
}

void Caller::note_failure(std::size_t target, const std::string& why) {
  if (is_early(why)) return;
  const auto [rejection, is_first] = rejections_.try_emplace(target, Clock::now() + kBeforeWeakCalls);
  if (is_first || !rejection->second.was_weak) failure_ = to_text(targets_[target]) + ": " + why;
}

std::vector<Channel*> Caller::attempts() const {
  std::vector<Channel*> channels;
  for (const auto& attempt : attempts_) channels.push_back(attempt.channel.get());
  return channels;
}

std::unique_ptr<Channel> Caller::take_verified() {
  const auto verified = [](const Attempt& attempt) { return attempt.channel->is(Channel::State::kVerified); };
  const auto found = std::ranges::find_if(attempts_, verified);
  if (found == attempts_.end()) return nullptr;
  auto channel = std::move(found->channel);
  // The peer has answered this call. A second connection would confuse the peer, so all other attempts end.
  attempts_.clear();
  return channel;
}

}  // namespace mn
