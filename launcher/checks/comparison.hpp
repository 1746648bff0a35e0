/// Compares a fact, such as the kernel's version, over all nodes of a job.
///
/// 1. A node without a value counts as different from every node, even from a node that has no value either.
/// 2. The usual value is the value of most nodes. If several values are equally common, the first node with one of
///    these values decides.
/// 3. The choice of the usual value ignores nodes without a value.
///
/// Cost: O(nodes log values), a few times for each fact.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "checks/findings.hpp"

namespace mn::launcher {

/// The values of a fact, as text; element i belongs to node i.
using NodeValues = std::vector<std::optional<std::string>>;

[[nodiscard]] inline std::string text_of(const std::string& value) { return value; }
[[nodiscard]] inline std::string text_of(bool value) { return value ? "true" : "false"; }
template <typename Number>
requires std::is_arithmetic_v<Number>
[[nodiscard]] std::string text_of(Number value) { return std::to_string(value); }

/// Returns fact(node) of each node, as text. `fact` returns a value or an optional value.
template <typename Fact>
[[nodiscard]] NodeValues values_of(const JobFacts& job, Fact fact) {
  NodeValues values;
  for (const auto& node : job.nodes) {
    if constexpr (requires { fact(node).has_value(); }) {
      const auto value = fact(node);
      values.push_back(value ? std::optional(text_of(*value)) : std::nullopt);
    } else {
      values.push_back(text_of(fact(node)));
    }
  }
  return values;
}

/// Nodes with the same unusual value of a fact.
struct OddNodes {
  std::vector<std::size_t> nodes;
  std::optional<std::string> value;  ///< no value: the fact is unknown on these nodes
  std::string usual;
};
/// Groups the nodes with an unusual value by value, those without a value last. Empty if no node has a value.
[[nodiscard]] std::vector<OddNodes> odd_nodes(const NodeValues& values);

enum class NoValue { kSkip, kReport };

/// kEachKind compares nodes with GPUs and nodes without GPUs separately, because the two kinds differ in many facts.
enum class Among { kAllNodes, kEachKind };

/// Returns a finding for each unusual value: "WHAT is X, but Y on other nodes"; `finding` has WHAT. With kReport, nodes
/// without a value get a finding, too, if any node has a value.
[[nodiscard]] Findings differences(const JobFacts& job, const Finding& finding, const NodeValues& values,
                                   NoValue no_value = NoValue::kSkip, Among among = Among::kAllNodes);
template <typename Fact>
[[nodiscard]] Findings differences(const JobFacts& job, const Finding& finding, Fact fact,
                                   NoValue no_value = NoValue::kSkip, Among among = Among::kAllNodes) {
  return differences(job, finding, values_of(job, fact), no_value, among);
}

/// Calls look(node, report) for each node. report(finding) adds a finding; equal findings are merged, with all hosts.
template <typename Look>
[[nodiscard]] Findings on_each_node(const JobFacts& job, Look look) {
  Findings findings;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    look(node, [&](Finding finding) { add(findings, std::move(finding).on(job.host(node))); });
  }
  return findings;
}

/// Returns `finding` with the hosts for which is_bad(node) is true. Empty if there is no such node.
template <typename Predicate>
[[nodiscard]] Findings affected(const JobFacts& job, const Finding& finding, Predicate is_bad) {
  Finding found = finding;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    if (is_bad(job.nodes[node])) found.hosts.push_back(job.host(node));
  }
  return found.hosts.empty() ? Findings{} : Findings{found};
}

}  // namespace mn::launcher
