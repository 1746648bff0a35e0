#include "checks/findings.hpp"

#include <mn/core/json.hpp>

#include "facts/report_text.hpp"

namespace mn::launcher {

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
  std::string line = findings_text(to_json({finding}), "");
  line.pop_back();
  return line;
}

nlohmann::json to_json(const Findings& findings) {
  auto list = nlohmann::json::array();
  for (const auto& finding : findings) {
    list.push_back({{"check", finding.check},
                    {"severity", finding.is_error ? "error" : "warning"},
                    {"hosts", finding.hosts},
                    {"what", finding.what},
                    {"remedy", finding.remedy}});
    if (!finding.advice.empty()) list.back()["advice"] = finding.advice;
  }
  return list;
}

}  // namespace mn::launcher
