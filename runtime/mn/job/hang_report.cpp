#include <mn/job/hang_report.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <set>

#include <mn/core/activity.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/host_list.hpp>
#include <mn/core/text.hpp>
#include <mn/job/rank_state.hpp>
#include <mn/job/wait_graph.hpp>

namespace mn {
namespace {

constexpr std::size_t kMaxNamed = 4;  // largest number of states that the message names

using States = std::vector<RankState>;

std::string fold(const std::vector<int>& ranks) { return number_ranges({ranks.begin(), ranks.end()}); }

/// Names ranks: "ranks 0-3,7", or "rank 5".
std::string listed(const std::vector<int>& ranks) { return (ranks.size() > 1 ? "ranks " : "rank ") + fold(ranks); }

std::string who(const RankState& state) { return listed(state.ranks) + " on " + abridge_host_list(state.hosts); }

std::string seconds_text(double seconds) { return std::to_string(static_cast<std::int64_t>(seconds)) + " s"; }

/// Names the call in which ranks wait, for example "allreduce (call 12)".
std::string name_of_call(const RankState& state) {
  return state.operation + (state.number > 0 ? " (call " + std::to_string(state.number) + ")" : " (a message)");
}

std::string perfect(const RankState& gone) { return (gone.ranks.size() > 1 ? " have " : " has ") + gone.left; }

/// Says what a rank is doing, for example "in barrier (call 4)" or "validation".
std::string where(const RankState& state) {
  if (!state.left.empty()) return perfect(state).substr(1);
  if (state.waits()) return "in " + name_of_call(state);
  return state.state.empty() ? "outside of calls" : state.state;
}

std::string line_of(const RankState& state) {
  std::string line = std::string(state.stuck ? "  stuck  " : "         ") + who(state) + ": ";
  if (!state.left.empty()) return line + where(state) + "\n";
  line += (state.state.empty() ? "outside of training" : state.state) + ", after iteration " +
          std::to_string(state.iteration);
  if (!state.call.empty()) line += ", in " + state.call;
  return line + ", no progress for " + seconds_text(state.seconds) + "\n";
}

std::string stacks_of(const States& states) {
  std::string text;
  std::size_t count = 0;
  for (const RankState& state : states) {
    if (state.stack.empty() || ++count > kMaxStacks) continue;
    text += "  stack of rank " + std::to_string(state.ranks.front()) + ":\n";
    InText lines(state.stack);
    for (std::string line; std::getline(lines, line);) text += "    " + line + "\n";
  }
  return text;
}

std::vector<int> missing_ranks(const States& states, int ranks) {
  std::set<int> missing;
  for (int rank = 0; rank < ranks; ++rank) missing.insert(rank);
  for (const RankState& state : states) {
    for (const int rank : state.ranks) missing.erase(rank);
  }
  return {missing.begin(), missing.end()};
}

std::string named(const std::vector<const RankState*>& states) {
  std::vector<std::string> each;
  for (const RankState* state : states) {
    if (each.size() < kMaxNamed) each.push_back(who(*state) + ": " + where(*state));
  }
  return join(each, "; ") + (states.size() > kMaxNamed ? "; …" : "");
}

/// Makes the report of rule 1. No value if no rank waits in a call for a rank that has left main.
std::optional<HangReport> report_of_left(const WaitGraph& graph) {
  const auto found = graph.waits_for_left();
  if (!found) return {};
  const auto& [waiting, gone] = *found;
  const std::string advice = waiting.number == 0 ? "no message comes or is taken after that"
                                                 : "every rank must make the same calls; give each as many minibatches "
                                                   "(mn::scatter_dataset does), and broadcast what makes a rank end";
  return HangReport{.table = {},
                    .message = listed(gone.ranks) + perfect(gone) + " while " + listed(waiting.ranks) +
                               (waiting.ranks.size() > 1 ? " wait" : " waits") + " in " + name_of_call(waiting) + ": " +
                               advice + " (" + who(gone) + "; " + who(waiting) + ")",
                    .is_over = true,
                    .has_left = true};
}

class Verdict {
 public:
  Verdict(const States& states, const WaitGraph& graph, const HangContext& job) : job_(job) {
    for (std::size_t i = 0; i < states.size(); ++i) {
      const RankState& state = states[i];
      if (state.stuck) stuck_s_ = std::max(stuck_s_, state.seconds);
      if (state.stuck) stuck_.insert(stuck_.end(), state.ranks.begin(), state.ranks.end());
      if (state.waits() && !graph.goes_on(i)) hopeless_.push_back(&state);
      hopeless_is_stuck_ |= state.stuck && state.waits() && !graph.goes_on(i);
      const bool is_unknown = state.state.empty() && state.left.empty() && state.seconds > unknown_patience_s();
      if (!state.waits() && (state.stuck || (is_unknown && graph.is_awaited(i, unknown_patience_s()))))
        idle_.push_back(&state);
      if (state.waits() && graph.is_complete(i) && state.seconds > work_patience_s()) idle_.push_back(&state);
      if (!state.waits() && state.left.empty()) free_.push_back(&state);
    }
    assert(!stuck_.empty());
    missing_ = missing_ranks(states, job.ranks);
  }

  [[nodiscard]] bool is_over() const {
    if (!idle_.empty() || hopeless_is_stuck_) return true;
    const double patience_s = job_.is_cut_off ? unknown_patience_s() : work_patience_s();
    // Rule 4: all ranks that have answered wait in calls.
    return !missing_.empty() && free_.empty() && stuck_s_ > std::max(patience_s, job_.peer_patience_s);
  }
  [[nodiscard]] std::string missing_line() const {
    return missing_.empty() ? "" : "         no answer from " + fold(missing_) + "\n";
  }
  [[nodiscard]] std::string message() const {
    std::string text = listed(stuck_) + (stuck_.size() > 1 ? " make" : " makes") +
                       " no progress (the table above says " + "where each rank is)";
    if (!idle_.empty()) return text + ": " + named(idle_);
    if (hopeless_is_stuck_)
      return text + ": " + named(hopeless_) + (hopeless_.size() > 1 ? "; these calls never meet" : "");
    if (!missing_.empty()) return text + "; they may wait for " + suspects();
    if (!free_.empty()) return text + "; they may wait for " + named(free_);
    return text + "; all ranks are in their calls, whose data may still travel";
  }

 private:
  [[nodiscard]] std::string suspects() const {
    std::string text = listed(missing_);
    if (job_.host_of) text += " on " + job_.host_of(missing_.front());
    return text + ", which " + (missing_.size() > 1 ? "do" : "does") +
           " not answer: a stopped process, a debugger, or a network that is down" +
           (std::isinf(job_.peer_patience_s)
                ? ""
                : "; MN_PEER_TIMEOUT (" + seconds_text(job_.peer_patience_s) + " of silence) ends the job");
  }

  const HangContext& job_;
  std::vector<int> stuck_, missing_;
  double stuck_s_ = 0;
  std::vector<const RankState*> hopeless_, idle_, free_;
  bool hopeless_is_stuck_ = false;
};

/// A device call that all ranks have joined has most likely ended, so its ranks count as outside of calls.
void take_out_of_enqueued(States& states, int ranks) {
  const WaitGraph graph(states, ranks);
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!states[i].enqueued || !graph.is_complete(i)) continue;
    states[i].call.clear();
    states[i].stuck = states[i].stuck_outside;
  }
}

}  // namespace

HangReport hang_report(const std::string& text, const HangContext& job) {
  States states = states_of(text, job.ranks);
  take_out_of_enqueued(states, job.ranks);
  std::ranges::stable_sort(states, std::greater(), &RankState::stuck);
  const WaitGraph graph(states, job.ranks);
  if (auto report = report_of_left(graph)) return *std::move(report);
  if (std::ranges::none_of(states, &RankState::stuck)) return {};
  HangReport report{.table = "where the ranks are:\n", .message = {}};
  for (const RankState& state : states) report.table += line_of(state);
  const Verdict verdict(states, graph, job);
  report.table += verdict.missing_line() + stacks_of(states);
  report.message = verdict.message();
  report.is_over = verdict.is_over();
  return report;
}

}  // namespace mn
