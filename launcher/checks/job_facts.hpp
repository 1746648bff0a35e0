/// The facts that a check sees: of a whole job, or of a single node if the launcher connects a node's ranks only.
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
  std::vector<std::string> skip;  ///< checks to leave out
  std::vector<std::string> warn;  ///< checks whose errors are warnings
};

struct JobFacts {
  Launcher launcher = Launcher::kNone;
  Layout layout;
  std::vector<int> numbers;  ///< for a part of a job: rank in the whole job by rank in the part; empty for a whole job
  std::vector<NodeFacts> nodes;                ///< by node
  std::vector<RankFacts> ranks;                ///< by rank
  std::vector<std::vector<Binding>> bindings;  ///< by node, then by rank of the node
  bool gpu_sharing_is_meant = false;           ///< --oversubscribe-gpu
  CheckChoice choice;

  [[nodiscard]] const std::string& host(std::size_t node) const { return layout.hosts[node]; }
  [[nodiscard]] const RankFacts& rank(int rank) const { return ranks[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool is_part() const noexcept { return !numbers.empty(); }
  /// Whether the check runs. A check leaves a fault to a better check only if the better check runs.
  [[nodiscard]] bool runs(const char* check) const {
    return std::ranges::find(choice.skip, check) == choice.skip.end();
  }
  /// The number in the whole job of rank `rank`.
  [[nodiscard]] int number(int rank) const { return is_part() ? numbers[static_cast<std::size_t>(rank)] : rank; }
};

/// Whether the job may open a GPU on the node.
[[nodiscard]] inline bool has_gpus(const NodeFacts& node) { return node.driver && !node.driver->gpus.empty(); }

}  // namespace mn::launcher
