#include "checks/comparison.hpp"

#include <map>

namespace mn::launcher {
namespace {

std::string shown(const std::optional<std::string>& value) {
  if (!value) return "not known";
  return value->empty() ? "empty" : *value;
}

}  // namespace

std::vector<OddNodes> odd_nodes(const NodeValues& values) {
  std::map<std::string, std::vector<std::size_t>> nodes_of;
  std::vector<std::string> order;
  std::vector<std::size_t> unknown;
  for (std::size_t node = 0; node < values.size(); ++node) {
    if (!values[node]) {
      unknown.push_back(node);
      continue;
    }
    auto& nodes = nodes_of[*values[node]];
    if (nodes.empty()) order.push_back(*values[node]);
    nodes.push_back(node);
  }
  if (order.empty()) return {};
  std::string usual = order.front();
  for (const auto& value : order) {
    if (nodes_of[value].size() > nodes_of[usual].size()) usual = value;
  }
  std::vector<OddNodes> odd;
  for (const auto& value : order) {
    if (value != usual) odd.push_back({nodes_of[value], value, usual});
  }
  if (!unknown.empty()) odd.push_back({std::move(unknown), std::nullopt, usual});
  return odd;
}

Findings differences(const JobFacts& job, const Finding& finding, const NodeValues& values, NoValue no_value,
                     Among among) {
  Findings findings;
  for (const bool with_gpus : {true, false}) {
    std::vector<std::size_t> nodes;
    NodeValues of_nodes;
    for (std::size_t node = 0; node < job.nodes.size(); ++node) {
      if (among == Among::kEachKind && has_gpus(job.nodes[node]) != with_gpus) continue;
      nodes.push_back(node);
      of_nodes.push_back(values[node]);
    }
    for (const auto& odd : odd_nodes(of_nodes)) {
      if (!odd.value && no_value == NoValue::kSkip) continue;
      Finding found = finding;
      found.what += " is " + shown(odd.value) + ", but " + shown(odd.usual) + " on other nodes";
      for (const std::size_t i : odd.nodes) found.hosts.push_back(job.host(nodes[i]));
      add(findings, std::move(found));
    }
    if (among == Among::kAllNodes) break;
  }
  return findings;
}

}  // namespace mn::launcher
