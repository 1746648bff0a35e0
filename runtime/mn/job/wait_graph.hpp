/// Which ranks wait for which, from what they say of their calls.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <mn/job/rank_state.hpp>

namespace mn {

/// hang_report.hpp has the rules. Indices are those of the states, which it refers to.
class WaitGraph {
 public:
  /// `ranks`: of the job.
  WaitGraph(const std::vector<RankState>& states, int ranks);

  /// Whether the ranks of a state go on by themselves, or wait for ranks that do.
  [[nodiscard]] bool goes_on(std::size_t state) const { return goes_on_[state]; }
  /// Whether the call of a state lacks no rank.
  [[nodiscard]] bool is_complete(std::size_t state) const;
  /// Whether a rank that has waited for longer than `seconds` waits for those of a state, or for ranks that do.
  [[nodiscard]] bool is_awaited(std::size_t state, double seconds) const;
  /// Ranks that wait in a call, and those that have left main without it.
  [[nodiscard]] std::optional<std::pair<RankState, RankState>> waits_for_left() const;

 private:
  [[nodiscard]] bool lacks(const RankState& waiting, const RankState& other) const;
  [[nodiscard]] bool may_go_on(std::size_t state) const;

  const std::vector<RankState>& states_;
  bool all_have_answered_;
  std::vector<bool> goes_on_;
};

}  // namespace mn
