/// The comparison of a job's nodes before the start: what a check sees, and what it finds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bind/binding.hpp"
#include "facts/facts.hpp"
#include "place/layout.hpp"
#include "place/placement.hpp"

namespace mn::launcher {

/// One thing that is wrong, with its cure.
struct Finding {
  std::string check;               ///< the check's name
  bool is_error = false;           ///< stops the job; else a warning
  std::vector<std::string> hosts;  ///< where; empty: everywhere
  std::string what;
  std::string remedy;
};
using Findings = std::vector<Finding>;

/// All that the ranks told, on rank 0.
struct JobFacts {
  Launcher launcher = Launcher::kNone;
  Layout layout;
  std::vector<Facts> nodes;                    ///< by node; facts of its first rank
  std::vector<Facts> ranks;                    ///< by rank
  std::vector<std::vector<Binding>> bindings;  ///< by node, then by rank of the node
  bool gpu_sharing_is_meant = false;           ///< --oversubscribe-gpu

  [[nodiscard]] const std::string& host(std::size_t node) const { return layout.hosts[node]; }
};

/// Nodes with a value that most nodes don't have.
struct Odd {
  std::vector<std::string> hosts;
  std::string value;  ///< theirs
  std::string usual;  ///< the most common one; the first node's among equally common
};
/// Compares the value at `pointer` (RFC 6901) over all nodes.
[[nodiscard]] std::vector<Odd> odd_nodes(const JobFacts& job, const std::string& pointer);

/// One finding for each odd value: "`what` is X, elsewhere Y".
[[nodiscard]] Findings differing(const JobFacts& job, const std::string& check, bool is_error,
                                 const std::string& pointer, const std::string& what, const std::string& remedy);

/// A finding for all the nodes for which `is_bad(facts)`, if there are any.
template <typename Predicate>
[[nodiscard]] Findings where(const JobFacts& job, const Finding& finding, Predicate is_bad) {
  Finding found = finding;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    if (is_bad(job.nodes[node])) found.hosts.push_back(job.host(node));
  }
  return found.hosts.empty() ? Findings{} : Findings{found};
}

/// The same finding on several nodes is one, with all their hosts.
void add(Findings& all, Finding finding);
void append(Findings& all, Findings more);

/// Every check of check_table.cpp, in its order.
[[nodiscard]] Findings run_checks(const JobFacts& job);

/// "error [libraries] vn2: WHAT; REMEDY".
[[nodiscard]] std::string to_line(const Finding& finding);
[[nodiscard]] nlohmann::json to_json(const Findings& findings);

}  // namespace mn::launcher
