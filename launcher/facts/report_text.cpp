#include "facts/report_text.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <mn/core/host_list.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

using nlohmann::json;

std::string entry_of(const json& row, const char* key) {
  const json value = row.value(key, json());
  if (value.is_number()) return value.dump();
  return value.is_string() && value != "" ? value.get<std::string>() : "-";
}

}  // namespace

std::string placement_text(const json& rows) {
  constexpr std::pair<const char*, const char*> kColumns[] = {
      {"rank", "rank"}, {"host", "host"},   {"intra", "intra_rank"}, {"inter", "inter_rank"}, {"device", "device"},
      {"gpu", "gpu"},   {"cores", "cores"}, {"nic", "nic"},          {"source", "source"}};
  std::vector<std::string> lines(rows.size() + 1);
  for (const auto& [title, key] : kColumns) {
    const std::size_t widest = std::ranges::max(lines, {}, &std::string::size).size();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (widest > 0) lines[i].resize(widest + 2, ' ');
      lines[i] += i == 0 ? title : entry_of(rows[i - 1], key);
    }
  }
  return join(lines, "\n") + "\n";
}

std::string findings_text(const json& findings, const std::string& before) {
  constexpr std::size_t kShown = 8;
  std::map<std::string, std::size_t> count;
  std::string text;
  for (const auto& finding : findings) {
    const auto text_in = [&](const char* key) { return finding.at(key).get<std::string>(); };
    const std::string kind = before + text_in("severity") + " [" + text_in("check") + "] ";
    if (++count[kind] > kShown) continue;
    const auto hosts = finding.at("hosts").get<std::vector<std::string>>();
    text += kind + (hosts.empty() ? "all nodes" : abridge_host_list(hosts)) + ": " + text_in("what") + "; " +
            text_in("remedy") + "\n";
  }
  for (const auto& [kind, found] : count) {
    if (found > kShown) text += kind + std::to_string(found - kShown) + " more; --json has all\n";
  }
  return text;
}

}  // namespace mn::launcher
