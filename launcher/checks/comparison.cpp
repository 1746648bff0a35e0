#include "checks/comparison.hpp"

#include <algorithm>
#include <map>

namespace mn::launcher {
namespace {

std::string shown(const std::optional<std::string>& value) {
  if (!value) return "not known";
  return value->empty() ? "empty" : *value;
}

}  // namespace

std::vector<OddNodes> odd_nodes(const NodeValues& values) {
  std::map<std::optional<std::string>, std::size_t> group_of;
  std::vector<OddNodes> groups;
  for (std::size_t node = 0; node < values.size(); ++node) {
    const auto [group, is_new] = group_of.try_emplace(values[node], groups.size());
    if (is_new) groups.push_back({{}, values[node], ""});
    groups[group->second].nodes.push_back(node);
  }
  const auto is_known = [](const OddNodes& group) { return group.value.has_value(); };
  const auto unknown = std::stable_partition(groups.begin(), groups.end(), is_known);
  const auto size = [](const OddNodes& group) { return group.nodes.size(); };
  const auto most = std::ranges::max_element(groups.begin(), unknown, {}, size);
  if (most == unknown) return {};
  const std::string usual = *most->value;
  groups.erase(most);
  for (auto& group : groups) group.usual = usual;
  return groups;
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
