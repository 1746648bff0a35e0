#include "selftest/report_text.hpp"

#include <algorithm>
#include <cstdio>

#include <mn/core/host_list.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

#include "facts/report_text.hpp"
#include "facts/xid_advice.hpp"
#include "selftest/thresholds.hpp"

namespace mn::selftest {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxPairs = 64;  ///< a longer list is shortened for people
constexpr int kSlowestPairs = 8;       ///< pairs shown of a longer list

template <typename... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, arguments...)), '\0');
  // A string has room for the zero that snprintf adds.
  std::snprintf(text.data(), text.size() + 1, format, arguments...);
  return text;
}

std::string unread_text(const json& hosts) {
  if (hosts.empty()) return "";
  return "  the kernel log is not readable on " + compress_host_list(hosts.get<std::vector<std::string>>()) +
         ": errors of GPUs are not known there (sysctl kernel.dmesg_restrict=0)\n";
}

std::string advice_text(const json& report) {
  std::string text;
  for (const auto& [host, advice] : advice_of(report)) {
    text += "  " + host + ": " + advice + (advice == "watch" ? "" : "; until then --exclude=" + host) + "\n";
  }
  return text.empty() ? "" : "\nadvice:\n" + text;
}

std::string history_text(const json& history) {
  std::string text;
  for (const auto& host : history.value("often", json::array())) {
    const std::string what = join(host.at("what"), ", ", [](const json& name) { return name.get<std::string>(); });
    text += formatted("  %s: %zu of its last %zu checks found %s\n", host.at("host").get<std::string>().c_str(),
                      host.at("found").get<std::size_t>(), host.at("of").get<std::size_t>(), what.c_str());
  }
  for (const auto& line : history.value("damaged_lines", json::array())) {
    text += formatted("  line %zu is damaged and was skipped\n", line.get<std::size_t>());
  }
  return text.empty() ? "" : "\nhistory:\n" + text;
}

double bandwidth_of(const json& pair) { return pair.at("bandwidth_mb_s").get<double>(); }

std::string pairs_text(json pairs) {
  std::string text;
  if (pairs.size() > kMaxPairs) {
    std::sort(pairs.begin(), pairs.end(),
              [](const json& a, const json& b) { return bandwidth_of(a) < bandwidth_of(b); });
    text = formatted("  %zu pairs of nodes, of which these are the slowest (--json has all):\n", pairs.size());
    pairs.erase(pairs.begin() + kSlowestPairs, pairs.end());
  }
  for (const auto& pair : pairs) {
    text += "  " + pair.at("from").get<std::string>() + " - " + pair.at("to").get<std::string>() + ": ";
    text += pair.value("answered", true)
                ? formatted("%.1f us, %.0f MB/s\n", pair.at("latency_us").get<double>(), bandwidth_of(pair))
                : "no answer\n";
  }
  return text;
}

std::map<std::string, double> bandwidths_of(const json& report) {
  std::map<std::string, double> bandwidths;
  const json tests = report.value("self_test", json::object());
  for (const auto& pair : tests.value("pairs", json::array())) {
    bandwidths[pair.at("from").get<std::string>() + " - " + pair.at("to").get<std::string>()] = bandwidth_of(pair);
  }
  for (const char* name : {"host_gpu_gb_s", "allreduce_gb_s"}) {
    if (tests.contains(name)) bandwidths[name] = tests.at(name).get<double>();
  }
  return bandwidths;
}

}  // namespace

std::string combine(const std::vector<std::string>& results, const std::vector<std::string>& hosts) {
  std::map<std::pair<bool, std::string>, std::vector<std::string>> hosts_of;  // bad results first
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (!results[rank].empty()) hosts_of[{!results[rank].starts_with(kFailed), results[rank]}].push_back(hosts[rank]);
  }
  if (hosts_of.empty()) return "";
  if (hosts_of.size() == 1) return hosts_of.begin()->first.second;
  std::string text;
  for (const auto& [result, where] : hosts_of) {
    text += (text.empty() ? "" : "; ") + result.second + " (" + compress_host_list(where) + ")";
  }
  return text;
}

std::vector<std::string> launcher_names(const json& placement, const std::vector<std::string>& hosts) {
  std::vector<std::string> names(hosts.size());
  for (const auto& row : placement) names.at(row.at("rank").get<std::size_t>()) = row.at("host").get<std::string>();
  // The launcher's names must match MPI's names one to one.
  std::map<std::string, std::string> name_of;
  std::map<std::string, std::string> host_of;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const bool fits = name_of.emplace(hosts[rank], names[rank]).first->second == names[rank] &&
                      host_of.emplace(names[rank], hosts[rank]).first->second == hosts[rank];
    if (!fits) return hosts;
  }
  return names;
}

std::vector<std::string> failed_hosts(const std::vector<std::string>& results, const std::vector<std::string>& hosts) {
  std::set<std::string> all;
  std::set<std::string> failed;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (results[rank].empty()) continue;
    all.insert(hosts[rank]);
    if (results[rank].starts_with(kFailed)) failed.insert(hosts[rank]);
  }
  if (all.size() > 1 && failed.size() == all.size()) return {};
  return {failed.begin(), failed.end()};
}

std::string verdict_of(const std::vector<std::string>& sentences) {
  return sentences.empty() ? "passed" : std::string(kFailed) + ": " + join(sentences, "; ");
}

std::vector<std::string> changes_since(const json& earlier, const json& report) {
  const auto before = bandwidths_of(earlier);
  std::vector<std::string> sentences;
  for (const auto& [name, now] : bandwidths_of(report)) {
    const auto then = before.find(name);
    if (then == before.end() || now >= kChangedPart * then->second) continue;
    sentences.push_back(formatted("%s: %.0f, it was %.0f", name.c_str(), now, then->second));
  }
  return sentences;
}

json finding_of_gpu_problem(const std::string& problem, const std::set<std::string>& hosts) {
  json finding = {{"check", "cuda"}, {"severity", "error"}, {"hosts", hosts}, {"what", problem}};
  if (problem.ends_with(kNotThisBuild)) {
    finding["remedy"] = "build mn with CUDA, of a version that the driver serves";
  } else {
    finding["remedy"] =
        "look at nvidia-smi, /dev/nvidia-uvm and nvidia-fabricmanager there, or leave the node out (--exclude)";
    finding["advice"] = "reboot";
  }
  return finding;
}

json finding_of_nccl_faults(const std::string& faults, const std::vector<std::string>& hosts) {
  const auto colon = faults.rfind(": ");  // the last colon stands before the remedy
  return {{"check", "nccl"},
          {"severity", "warning"},
          {"hosts", std::set<std::string>(hosts.begin(), hosts.end())},
          {"what", faults.substr(0, colon)},
          {"remedy", faults.substr(colon + 2)}};
}

bool has_errors(const json& report) {
  for (const auto& finding : report.at("findings")) {
    if (finding.at("severity") == "error") return true;
  }
  for (const auto& [name, result] : report.at("self_test").items()) {
    if (result.is_string() && result.get<std::string>().starts_with(kFailed)) return true;
  }
  return false;
}

std::map<std::string, std::string> advice_of(const json& report) {
  static const std::vector<std::string> kGravestFirst = {"isolate", "reboot", "reset", "watch"};
  std::map<std::string, std::string> advice;
  const auto advise = [&](const std::string& host, const std::string& more) {
    const auto gravity = [&](const std::string& word) { return std::ranges::find(kGravestFirst, word); };
    auto& here = advice[host];
    // find() does not find the empty text of a new host, so any advice is graver.
    if (gravity(more) < gravity(here)) here = more;
  };
  for (const auto& finding : report.at("findings")) {
    if (!finding.contains("advice")) continue;
    for (const auto& host : finding.at("hosts"))
      advise(host.get<std::string>(), finding.at("advice").get<std::string>());
  }
  for (const auto& test : report.value("blamed", json::array())) {
    for (const auto& host : test.at("hosts")) advise(host.get<std::string>(), test.at("advice").get<std::string>());
  }
  const json xids = report.value("xids", json::object());
  for (const auto& [host, numbers] : xids.items()) {
    for (const auto& number : numbers) {
      const std::string known(launcher::advice_on(number.get<int>()));
      advise(host, known.empty() ? "watch" : known);
    }
  }
  return advice;
}

std::string text_of(const json& report) {
  const json& findings = report.at("findings");
  std::string text = launcher::placement_text(report.at("placement")) +
                     "\nchecks:" + (findings.empty() ? " nothing found" : "") + "\n" +
                     launcher::findings_text(findings, "  ");
  text += unread_text(report.value("without_kernel_log", json::array())) + "\nself test:\n";
  const json& tests = report.at("self_test");
  for (const auto& [name, result] : tests.items()) {
    if (result.is_string()) text += formatted("  %-18s %s\n", name.c_str(), result.get<std::string>().c_str());
    if (result.is_number()) text += formatted("  %-18s %.1f\n", name.c_str(), result.get<double>());
  }
  return text + pairs_text(tests.value("pairs", json::array())) + advice_text(report) +
         history_text(report.value("history", json::object()));
}

std::string judge_ports(const std::vector<launcher::PortFacts>& before, const std::vector<launcher::PortFacts>& after) {
  constexpr std::int64_t kMaxErrors = 10;  // errors in a test of minutes
  if (before.empty()) return "";
  std::vector<std::string> sentences;
  for (const auto& port : after) {
    const auto then = std::ranges::find(before, port.name, &launcher::PortFacts::name);
    if (then == before.end()) continue;
    const auto downs = port.downs.value_or(0) - then->downs.value_or(0);
    const auto errors = port.errors.value_or(0) - then->errors.value_or(0);
    if (downs > 0) sentences.push_back(port.name + " lost its link " + std::to_string(downs) + " times");
    if (errors > kMaxErrors) sentences.push_back(port.name + " counted " + std::to_string(errors) + " errors");
  }
  return verdict_of(sentences);
}

}  // namespace mn::selftest
