#include <mn/job/rank_state.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/calls/group_calls.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/json.hpp>

namespace mn {

// Not in an anonymous namespace: nlohmann::json finds the macro's functions by argument-dependent lookup.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankState, ranks, hosts, state, iteration, left, call, operation, blocks, enqueued,
                                   leader, ordinal, number, peer, has_messages, seconds, stuck, stuck_outside, groups,
                                   stack)

namespace {

using nlohmann::json;

constexpr double kLong_s = 10;  // time without progress after which a rank shows its stack

double seconds_of(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

/// Returns a key; ranks with equal keys may be merged.
std::string key_of(RankState state) {
  state.ranks.clear();
  state.hosts.clear();
  state.stack.clear();
  // The rules for messages only ask which of two limits a wait has reached.
  const double seconds = std::exchange(state.seconds, 0);
  if (state.waits()) state.seconds = (seconds < kMessageTime_s ? 0 : 1) + (seconds < work_patience_s() ? 0 : 1);
  if (state.waits()) state.stuck = state.stuck_outside = false;  // ranks that wait in the same call are alike
  return json_text(state);
}

void merge_into(RankState& all, const RankState& one) {
  all.ranks.insert(all.ranks.end(), one.ranks.begin(), one.ranks.end());
  std::set<std::string> hosts(all.hosts.begin(), all.hosts.end());
  hosts.insert(one.hosts.begin(), one.hosts.end());
  all.hosts.assign(hosts.begin(), hosts.end());
  // The messages of the rank that left main last may still travel.
  all.seconds = all.has_left() ? std::min(all.seconds, one.seconds) : std::max(all.seconds, one.seconds);
  all.stuck |= one.stuck;
  all.stuck_outside |= one.stuck_outside;
  if (all.stack.empty()) all.stack = one.stack;
}

void add_call(RankState& state, const CallUnderWay& call) {
  state.call = call.text;
  state.operation = call.operation;
  state.blocks = call.blocks;
  state.enqueued = call.enqueued;
  state.leader = call.leader;
  state.ordinal = call.ordinal;
  state.number = call.number;
  state.peer = call.world_peer;
}

}  // namespace

std::string text_of(const std::vector<RankState>& states) { return json_text(states); }

std::vector<RankState> states_of(const std::string& text, int ranks) {
  try {
    auto states = parse_json(text, "a survey's answer").get<std::vector<RankState>>();
    const auto is_rank = [&](int rank) { return rank >= 0 && rank < ranks; };
    std::erase_if(states, [&](const RankState& state) {
      return state.ranks.empty() || !std::ranges::all_of(state.ranks, is_rank) ||
             (state.peer != -1 && !is_rank(state.peer));
    });
    return states;
  } catch (const std::exception&) {
    return {};
  }
}

std::string merge_states(const std::vector<std::string>& texts, int ranks) {
  std::map<std::string, RankState> merged;
  for (const std::string& text : texts) {
    for (RankState& state : states_of(text, ranks)) {
      const auto [found, is_new] = merged.try_emplace(key_of(state), state);
      if (!is_new) merge_into(found->second, state);
    }
  }
  std::vector<RankState> list;
  std::size_t stacks = 0;
  for (auto& [key, state] : merged) {
    if (!state.stack.empty() && ++stacks > kMaxStacks) state.stack.clear();
    list.push_back(std::move(state));
  }
  return text_of(list);
}

void OwnState::look() {
  const auto call = call_under_way();
  const std::uint64_t record = call ? call->record : 0, begun = calls_begun();
  const std::lock_guard lock(mutex_);
  looked_ = Clock::now();
  // New calls of other threads are no progress of the main thread.
  if (!left_.empty() || (record == record_ && (call || begun == begun_))) return;
  record_ = record;
  begun_ = begun;
  since_ = Clock::now();
}

void OwnState::discount(std::chrono::duration<double> time) {
  const std::lock_guard lock(mutex_);
  since_ = std::min(since_ + std::chrono::duration_cast<Clock::duration>(time), Clock::now());
}

void OwnState::leave(const std::string& how) {
  const std::lock_guard lock(mutex_);
  left_ = how;
  record_ = 0;  // look() no longer changes record_, and may have missed the end of the last call
  since_ = Clock::now();
}

RankState OwnState::now(bool with_stack) const {
  const Activity activity = activity_now();
  const auto call = call_under_way();
  const auto now = Clock::now();
  double standstill_s = 0;
  RankState own{
      .ranks = {speaker_.rank}, .hosts = {speaker_.host}, .state = activity.state, .iteration = activity.iteration};
  {
    const std::lock_guard lock(mutex_);
    own.left = left_;
    // The process may have stood still since the watch's last look.
    if (now - looked_ > kStandstill) standstill_s = seconds_of(now - looked_);
    // If the watch has not seen the call yet, it has just begun.
    if ((call ? call->record : 0) == record_) own.seconds = seconds_of(now - since_) - standstill_s;
  }
  if (call) add_call(own, *call);
  own.has_messages = MessageInBackground::any();
  const bool is_watched = hang_action() != HangAction::kOff && own.left.empty();
  const bool may_be_outside = !own.waits() || own.enqueued;
  if (own.left.empty() && may_be_outside) own.seconds = std::min(own.seconds, activity.silent_s - standstill_s);
  own.seconds = std::max(own.seconds, 0.0);
  own.stuck_outside = is_watched && may_be_outside && own.seconds > activity.limit_s;
  own.stuck = own.waits() ? is_watched && own.seconds > call_patience_s() : own.stuck_outside;
  for (const GroupCalls& group : group_calls())
    own.groups.push_back({group.leader, group.ordinal, static_cast<std::int64_t>(group.number)});
  const bool is_known = !own.state.empty() || own.waits();
  if (with_stack && (own.stuck || (is_known && own.left.empty() && own.seconds >= kLong_s)))
    own.stack = stack_of(main_);
  return own;
}

}  // namespace mn
