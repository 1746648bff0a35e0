/// What a check sees: the facts of a whole job, or, where its launcher connects a node's ranks only, of one node.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "bind/binding.hpp"
#include "facts/facts.hpp"
#include "place/layout.hpp"
#include "place/placement.hpp"

namespace mn::launcher {

/// Which checks run, by the names of their findings.
struct CheckChoice {
  std::vector<std::string> skip;  ///< these do not
  std::vector<std::string> warn;  ///< errors of these are warnings
};

struct JobFacts {
  Launcher launcher = Launcher::kNone;
  Layout layout;
  std::vector<int> numbers;      ///< for a part of a job: its ranks, which the other members count from 0; else empty
  std::vector<NodeFacts> nodes;  ///< by node; from its first rank
  std::vector<RankFacts> ranks;  ///< by rank
  std::vector<std::vector<Binding>> bindings;  ///< by node, then by rank of the node
  bool gpu_sharing_is_meant = false;           ///< --oversubscribe-gpu
  CheckChoice choice;

  [[nodiscard]] const std::string& host(std::size_t node) const { return layout.hosts[node]; }
  [[nodiscard]] const RankFacts& rank(int rank) const { return ranks[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool is_part() const noexcept { return !numbers.empty(); }
  /// Whether that check runs. A finding that it would explain is reported where it does not.
  [[nodiscard]] bool runs(const char* check) const {
    return std::ranges::find(choice.skip, check) == choice.skip.end();
  }
  /// The rank in the whole job of what this calls `rank`.
  [[nodiscard]] int number(int rank) const { return is_part() ? numbers[static_cast<std::size_t>(rank)] : rank; }
};

/// Whether the job may open a GPU on that node.
[[nodiscard]] inline bool has_gpus(const NodeFacts& node) { return node.driver && !node.driver->gpus.empty(); }

}  // namespace mn::launcher
