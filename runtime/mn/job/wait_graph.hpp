/// Which ranks wait for which ranks, from the states in a survey.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <mn/job/rank_state.hpp>

namespace mn {

/// Implements the rules of hang_report.hpp. Indices are the indices of `states`; `states` must outlive the graph.
class WaitGraph {
 public:
  /// `ranks`: number of ranks of the job.
  WaitGraph(const std::vector<RankState>& states, int ranks);

  /// True if the ranks of a state go on by themselves, or wait for ranks that go on.
  [[nodiscard]] bool goes_on(std::size_t state) const { return goes_on_[state]; }
  /// True if the call of a state lacks no rank.
  [[nodiscard]] bool is_complete(std::size_t state) const;
  /// True if a rank waiting for longer than `seconds` waits for the ranks of a state, also through further ranks.
  [[nodiscard]] bool is_awaited(std::size_t state, double seconds) const;
  /// Ranks waiting in a call, and the ranks that left main without joining; no value if no rank waits in vain.
  [[nodiscard]] std::optional<std::pair<RankState, RankState>> waits_for_left() const;

 private:
  [[nodiscard]] bool lacks(const RankState& waiting, const RankState& other) const;
  [[nodiscard]] bool may_go_on(std::size_t state) const;

  const std::vector<RankState>& states_;
  bool all_have_answered_;
  std::vector<bool> goes_on_;
};

}  // namespace mn
