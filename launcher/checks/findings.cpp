#include "checks/findings.hpp"

#include <algorithm>
#include <map>

#include <mn/core/host_list.hpp>
#include <mn/core/json.hpp>

namespace mn::launcher {
namespace {

std::string value_at(const Facts& facts, const Facts::json_pointer& pointer) {
  if (!facts.contains(pointer)) return "not there";
  const Facts& value = facts.at(pointer);
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Facts::error_handler_t::replace);
}

std::string shown(const std::string& value) { return value.empty() ? "empty" : value; }

}  // namespace

std::vector<Odd> odd_nodes(const JobFacts& job, const std::string& pointer) {
  const Facts::json_pointer at(pointer);
  std::map<std::string, std::vector<std::string>> hosts_of;
  std::vector<std::string> order;
  for (std::size_t node = 0; node < job.nodes.size(); ++node) {
    const std::string value = value_at(job.nodes[node], at);
    if (!hosts_of.contains(value)) order.push_back(value);
    hosts_of[value].push_back(job.host(node));
  }
  if (order.size() < 2) return {};
  std::string usual = order.front();
  for (const auto& value : order) {
    if (hosts_of[value].size() > hosts_of[usual].size()) usual = value;
  }
  std::vector<Odd> odd;
  for (const auto& value : order) {
    if (value != usual) odd.push_back({hosts_of[value], value, usual});
  }
  return odd;
}

Findings differing(const JobFacts& job, const std::string& check, bool is_error, const std::string& pointer,
                   const std::string& what, const std::string& remedy) {
  Findings findings;
  for (const auto& odd : odd_nodes(job, pointer)) {
    findings.push_back(
        {check, is_error, odd.hosts, what + " is " + shown(odd.value) + ", elsewhere " + shown(odd.usual), remedy});
  }
  return findings;
}

void add(Findings& all, Finding finding) {
  const auto is_same = [&](const Finding& other) {
    return other.check == finding.check && other.is_error == finding.is_error && other.what == finding.what &&
           other.remedy == finding.remedy;
  };
  const auto same = std::ranges::find_if(all, is_same);
  if (same == all.end()) {
    all.push_back(std::move(finding));
  } else {
    for (const auto& host : finding.hosts) {
      if (std::ranges::find(same->hosts, host) == same->hosts.end()) same->hosts.push_back(host);
    }
  }
}

void append(Findings& all, Findings more) {
  for (auto& finding : more) add(all, std::move(finding));
}

std::string to_line(const Finding& finding) {
  const std::string hosts = finding.hosts.empty() ? "all nodes" : compress_host_list(finding.hosts);
  return std::string(finding.is_error ? "error" : "warning") + " [" + finding.check + "] " + hosts + ": " +
         finding.what + "; " + finding.remedy;
}

nlohmann::json to_json(const Findings& findings) {
  auto list = nlohmann::json::array();
  for (const auto& finding : findings) {
    list.push_back({{"check", finding.check},
                    {"severity", finding.is_error ? "error" : "warning"},
                    {"hosts", finding.hosts},
                    {"what", finding.what},
                    {"remedy", finding.remedy}});
  }
  return list;
}

}  // namespace mn::launcher
