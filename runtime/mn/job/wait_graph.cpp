#include <mn/job/wait_graph.hpp>

#include <algorithm>
#include <cassert>
#include <ranges>

#include <mn/core/activity.hpp>

namespace mn {
namespace {

bool has(const RankState& state, int rank) { return std::ranges::find(state.ranks, rank) != state.ranks.end(); }

/// Returns the number of the last call of `state` in the group of `call`. No value if `state` is not of the group.
std::optional<std::int64_t> last_call(const RankState& state, const RankState& call) {
  for (const auto& [leader, ordinal, number] : state.groups) {
    if (leader == call.leader && ordinal == call.ordinal) return number;
  }
  return {};
}

bool sends(const RankState& state) { return state.operation.find("send") != std::string::npos; }
bool receives(const RankState& state) { return state.operation.find("recv") != std::string::npos; }

bool takes_any(const RankState& state) { return state.number == 0 && state.peer < 0 && receives(state); }

/// True if the call's ranks are unknown: the call creates a communicator of some ranks, or its group has no leader.
bool is_unknown_call(const RankState& state) {
  return state.leader < 0 || (state.number == 0 && state.peer < 0 && !receives(state));
}

bool meet(const RankState& one, const RankState& other) {
  if (!other.waits() || other.number > 0 || (other.peer >= 0 && !sends(other) && !has(one, other.peer))) return false;
  return (sends(one) && receives(other)) || (receives(one) && sends(other));
}

/// True if the message of `waiting` may still travel: the ranks of `other` may have sent it and continued.
bool may_travel(const RankState& waiting, const RankState& other) {
  if (waiting.number > 0) return false;
  return std::min(waiting.seconds, other.seconds) < (other.has_messages ? work_patience_s() : kMessageTime_s);
}

/// True if the two states are in different calls that have equal numbers in one group. A wait for a device, or for the
/// first call in the background, does not count as a different call.
bool differ(const RankState& one, const RankState& other) {
  const auto is_wait = [](const RankState& state) {
    return state.operation.starts_with("wait for") || state.operation.starts_with("first call");
  };
  return one.leader == other.leader && one.ordinal == other.ordinal && one.number == other.number &&
         one.operation != other.operation && !is_wait(one) && !is_wait(other);
}

}  // namespace

WaitGraph::WaitGraph(const std::vector<RankState>& states, int ranks)
    : states_(states), goes_on_(states.size(), false) {
  std::size_t answered = 0;
  for (const RankState& state : states) answered += state.ranks.size();
  all_have_answered_ = answered >= static_cast<std::size_t>(ranks);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (goes_on_[i] || !may_go_on(i)) continue;
      goes_on_[i] = changed = true;
    }
  }
}

bool WaitGraph::lacks(const RankState& waiting, const RankState& other) const {
  if (&waiting == &other) return false;
  if (waiting.number == 0) return has(other, waiting.peer) && !meet(waiting, other);
  if (other.waits() && differ(waiting, other)) return true;
  const auto last = last_call(other, waiting);
  return last && *last < static_cast<std::int64_t>(waiting.number);
}

bool WaitGraph::may_go_on(std::size_t state) const {
  assert(state < states_.size());
  const RankState& own = states_[state];
  if (own.has_left()) return false;
  if (!own.waits()) return true;
  const auto goes_on = [&](std::size_t i) { return goes_on_[i] || may_travel(own, states_[i]); };
  const auto all = std::views::iota(std::size_t{0}, states_.size());
  if (is_unknown_call(own) && own.seconds < work_patience_s()) return true;
  if (is_unknown_call(own) || takes_any(own)) return !all_have_answered_ || std::ranges::any_of(all, goes_on);
  return std::ranges::all_of(all, [&](std::size_t i) { return !lacks(own, states_[i]) || goes_on(i); });
}

bool WaitGraph::is_complete(std::size_t state) const {
  assert(state < states_.size());
  const RankState& own = states_[state];
  if (!all_have_answered_ || takes_any(own) || is_unknown_call(own)) return false;
  return std::ranges::none_of(states_, [&](const RankState& other) { return lacks(own, other); });
}

bool WaitGraph::is_awaited(std::size_t state, double seconds) const {
  std::vector<bool> reached(states_.size(), false);
  std::vector<std::size_t> next;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].waits() && states_[i].seconds > seconds) next.push_back(i);
  }
  while (!next.empty()) {
    const RankState& waiting = states_[next.back()];
    next.pop_back();
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (reached[i] || (!takes_any(waiting) && !is_unknown_call(waiting) && !lacks(waiting, states_[i]))) continue;
      reached[i] = true;
      if (states_[i].waits()) next.push_back(i);
    }
  }
  return reached[state];
}

std::optional<std::pair<RankState, RankState>> WaitGraph::waits_for_left() const {
  const auto others_left = [&](const RankState& waiting) {
    return all_have_answered_ && waiting.ranks.size() == 1 && std::ranges::all_of(states_, [&](const RankState& each) {
             return &each == &waiting || (each.has_left() && !may_travel(waiting, each));
           });
  };
  for (const RankState& waiting : states_) {
    if (waiting.call.empty() || !waiting.left.empty() || is_unknown_call(waiting)) continue;
    for (const RankState& other : states_) {
      if (!other.has_left() || (takes_any(waiting) ? !others_left(waiting) : !lacks(waiting, other))) continue;
      if (may_travel(waiting, other)) continue;
      std::pair found(waiting, other);
      if (waiting.number == 0 && waiting.peer >= 0) found.second.ranks = {waiting.peer};
      return found;
    }
  }
  return {};
}

}  // namespace mn
