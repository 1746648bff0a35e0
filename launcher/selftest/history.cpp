#include "selftest/history.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/fd.hpp>
#include <mn/core/json.hpp>
#include <mn/core/unix_time.hpp>

namespace mn::selftest {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxRuns = 10;    ///< newest runs of a host; older runs do not count
constexpr std::size_t kMinRepeats = 2;  ///< a host with findings in this number of runs is reported

bool names_host(const json& entry, const std::string& host) {
  const json& hosts = entry.at("hosts");
  return std::ranges::find(hosts, json(host)) != hosts.end();
}

json figures_of_host(const json& report, const std::string& host) {
  json figures = report.value("figures", json::object()).value(host, json::object());
  double fastest = 0;
  for (const auto& pair : report.at("self_test").value("pairs", json::array())) {
    if (pair.at("from") == host || pair.at("to") == host) {
      fastest = std::max(fastest, pair.at("bandwidth_mb_s").get<double>());
    }
  }
  if (fastest > 0) figures["network_mb_s"] = fastest;
  return figures;
}

json record_of(const json& report, const std::string& host, std::size_t hosts, const std::string& time) {
  json record = {{"time", time}, {"host", host}, {"findings", json::array()}, {"failed", json::array()}};
  bool has_error = false;
  for (const auto& finding : report.at("findings")) {
    if (!names_host(finding, host)) continue;
    json kept = {{"check", finding.at("check")}, {"severity", finding.at("severity")}, {"what", finding.at("what")}};
    if (finding.contains("advice")) kept["advice"] = finding.at("advice");
    if (hosts > 1 && finding.at("hosts").size() == hosts) kept["on_all_hosts"] = true;
    record["findings"].push_back(std::move(kept));
    has_error = has_error || finding.at("severity") == "error";
  }
  for (const auto& test : report.value("blamed", json::array())) {
    if (names_host(test, host)) record["failed"].push_back(test.at("test"));
  }
  const bool failed = has_error || !record["failed"].empty();
  record["verdict"] = failed ? "failed" : record["findings"].empty() ? "well" : "warned";
  const json advice = report.value("advice", json::object());
  if (advice.contains(host)) record["advice"] = advice.at(host);
  record["figures"] = figures_of_host(report, host);
  return record;
}

/// Returns what counts against the record's host: errors that not all hosts have, findings of broken hardware, and
/// failed tests. Other findings come from how the job was started.
std::vector<std::string> found_in(const json& record) {
  std::set<std::string> found;
  for (const auto& finding : record.at("findings")) {
    const bool is_its_own = finding.at("severity") == "error" && !finding.contains("on_all_hosts");
    const bool counts = is_its_own || finding.contains("advice");
    if (counts) found.insert(finding.at("check").get<std::string>());
  }
  for (const auto& test : record.at("failed")) found.insert(test.get<std::string>());
  if (found.empty() && record.contains("advice")) found.insert("gpu-health");  // errors in the kernel log
  return {found.begin(), found.end()};
}

void note(History& history, const json& record) {
  auto found = found_in(record);
  auto& runs = history.found[record.at("host").get<std::string>()];
  runs.push_back(std::move(found));
  if (runs.size() > kMaxRuns) runs.erase(runs.begin());
}

/// Without the lock, a reader might see a half written line.
Fd open_locked(const std::string& file, int flags, int lock) {
  Fd opened(open(file.c_str(), flags | O_CLOEXEC, 0666));
  if (opened) flock(opened.get(), lock);
  return opened;
}

bool ends_in_mid_line(int file) {
  const off_t size = lseek(file, 0, SEEK_END);
  char last = '\n';
  return size > 0 && pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

std::vector<json> records_of(const json& report, std::chrono::system_clock::time_point now) {
  const std::string time = utc_text(std::chrono::duration<double>(now.time_since_epoch()).count());
  std::vector<json> records;
  std::set<std::string> hosts;
  for (const auto& row : report.at("placement")) hosts.insert(row.at("host").get<std::string>());
  for (const auto& test : report.value("blamed", json::array())) {
    for (const auto& host : test.at("hosts")) hosts.insert(host.get<std::string>());
  }
  for (const auto& host : hosts) records.push_back(record_of(report, host, hosts.size(), time));
  return records;
}

History read_history(const std::string& file) {
  History history;
  if (!std::filesystem::exists(file)) return history;
  const Fd lock = open_locked(file, O_RDONLY, LOCK_SH);
  std::ifstream lines(file);
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    try {
      note(history, parse_json(line, file));
    } catch (const DataError&) {
      history.damaged.push_back(number);
    } catch (const json::exception&) {  // JSON, but not a record
      history.damaged.push_back(number);
    }
  }
  if (lines.bad() || !lines.eof()) throw Error(with_errno("--history: cannot read " + file, errno));
  return history;
}

json history_with(History history, const std::vector<json>& records) {
  for (const auto& record : records) note(history, record);
  json often = json::array();
  for (const auto& [host, runs] : history.found) {
    std::set<std::string> what;
    std::size_t count = 0;
    for (const auto& found : runs) {
      what.insert(found.begin(), found.end());
      if (!found.empty()) ++count;
    }
    if (count < kMinRepeats) continue;
    often.push_back({{"host", host}, {"found", count}, {"of", runs.size()}, {"what", what}});
  }
  std::stable_sort(often.begin(), often.end(),
                   [](const json& a, const json& b) { return a.at("found") > b.at("found"); });
  return {{"often", often}, {"damaged_lines", history.damaged}};
}

void append_history(const std::string& file, const std::vector<json>& records) {
  const Fd output = open_locked(file, O_RDWR | O_APPEND | O_CREAT, LOCK_EX);
  if (!output) throw Error(with_errno("--history: cannot write " + file, errno));
  // A killed run may have left half a line.
  std::string text = ends_in_mid_line(output.get()) ? "\n" : "";
  for (const auto& record : records) text += json_text(record) + "\n";
  // Invariant 1: a single write() appends all lines of this run.
  const ssize_t written = write(output.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return;
  throw Error(with_errno("--history: cannot write all of this run to " + file, written < 0 ? errno : ENOSPC));
}

}  // namespace mn::selftest
