/// JobFacts are the input of the checks, and Findings the output. Each finding has a remedy.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bind/affinity.hpp"
#include "facts/facts.hpp"
#include "place/placement.hpp"

namespace mn::launcher {

struct Finding {
  std::string check;               ///< the check's name in docs/launcher.md
  bool is_error = false;           ///< an error stops the job, a warning does not
  std::vector<std::string> hosts;  ///< empty: all nodes
  std::string what;
  std::string remedy;
  std::string advice = {};  ///< for --doctor, about broken hardware: isolate, reboot, reset or watch

  [[nodiscard]] Finding on(const std::string& host) && {
    hosts.push_back(host);
    return std::move(*this);
  }
};
using Findings = std::vector<Finding>;

[[nodiscard]] inline Finding error_of(const std::string& check, const std::string& what, const std::string& remedy,
                                      const std::string& advice = "") {
  return {check, true, {}, what, remedy, advice};
}
[[nodiscard]] inline Finding warning_of(const std::string& check, const std::string& what, const std::string& remedy,
                                        const std::string& advice = "") {
  return {check, false, {}, what, remedy, advice};
}

/// Adds `finding`. If `all` already has `finding` for different hosts, adds only the new hosts.
void add(Findings& all, Finding finding);
void append(Findings& all, Findings more);

/// Returns "error [libraries] vn2: WHAT; REMEDY".
[[nodiscard]] std::string to_line(const Finding& finding);
[[nodiscard]] nlohmann::json to_json(const Findings& findings);

/// Whether `name` is among `names`, for instance those of --skip.
[[nodiscard]] inline bool has_name(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The facts of the whole job or, if only the ranks of each node are connected, of a single node.
struct JobFacts {
  Launcher launcher = Launcher::kNone;
  Layout layout;
  std::vector<int> numbers;      ///< numbers[i]: rank i's number in the job, if this is a part of the job; else empty
  std::vector<NodeFacts> nodes;  ///< by node
  std::vector<RankFacts> ranks;  ///< by rank
  std::vector<std::vector<Binding>> bindings;  ///< by node, then by rank of the node
  bool gpu_sharing_is_meant = false;           ///< --oversubscribe-gpu
  std::vector<std::string> skip;               ///< checks to leave out
  std::vector<std::string> warn;               ///< checks whose errors are warnings

  [[nodiscard]] const std::string& host(std::size_t node) const { return layout.hosts[node]; }
  [[nodiscard]] const RankFacts& rank(int rank) const { return ranks[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool is_part() const noexcept { return !numbers.empty(); }
  /// Whether the check `check` runs. A check asks this before it leaves a fault to a more exact check.
  [[nodiscard]] bool runs(const char* check) const { return !has_name(skip, check); }
  /// Converts a rank's number in the facts to the number in the whole job.
  [[nodiscard]] int number(int rank) const { return is_part() ? numbers[static_cast<std::size_t>(rank)] : rank; }
};

/// Whether the node has a GPU that the job may open.
[[nodiscard]] inline bool has_gpus(const NodeFacts& node) { return node.driver && !node.driver->gpus.empty(); }

}  // namespace mn::launcher
