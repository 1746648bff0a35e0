/// Finds out, from the states of all ranks in a survey, which ranks wait for which ranks.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <mn/job/rank_state.hpp>

namespace mn {

/// Implements the rules of hang_report.hpp. A state is passed as its index in `states`, which must outlive the graph.
class WaitGraph {
 public:
  WaitGraph(const std::vector<RankState>& states, int ranks);

  /// True if the state's ranks may still make progress (rule 2), or the ranks for which they wait may.
  [[nodiscard]] bool goes_on(std::size_t state) const { return goes_on_[state]; }
  /// True if all ranks of the call's group have made the call in which the state's ranks wait.
  [[nodiscard]] bool is_complete(std::size_t state) const;
  /// True if some rank has waited for this state's ranks for longer than `seconds`, directly or through other ranks.
  [[nodiscard]] bool is_awaited(std::size_t state, double seconds) const;
  /// Returns a pair of states: the ranks of the first wait in a call, and the ranks of the second have left main
  /// without making that call. No value if no rank waits for a rank that has left main.
  [[nodiscard]] std::optional<std::pair<RankState, RankState>> waits_for_left() const;

 private:
  [[nodiscard]] bool lacks(const RankState& waiting, const RankState& other) const;
  [[nodiscard]] bool may_go_on(std::size_t state) const;

  const std::vector<RankState>& states_;
  bool all_have_answered_;
  std::vector<bool> goes_on_;
};

}  // namespace mn
