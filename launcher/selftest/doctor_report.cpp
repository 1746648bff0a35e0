#include "selftest/doctor_report.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/standard_output.hpp>

#include "selftest/history.hpp"
#include "selftest/report_text.hpp"

namespace mn::selftest {
namespace {

using nlohmann::json;

bool has_name(const json& names, const json& name) { return std::ranges::find(names, name) != names.end(); }

bool succeeds(const std::function<void()>& write) {
  try {
    write();
    return true;
  } catch (const Error& error) {
    std::cerr << "mnlaunch --doctor: " + std::string(error.what()) + "\n";
    return false;
  }
}

}  // namespace

Report::Report(SelfTestOptions options) : options_(std::move(options)) {
  document_ = {{"findings", json::array()}, {"placement", json::array()}, {"self_test", json::object()}};
}

void Report::add_finding(json finding) {
  const std::lock_guard lock(mutex_);
  const json& name = finding.at("check");
  if (has_name(document_.value("skip", json::array()), name)) return;
  if (has_name(document_.value("warn", json::array()), name)) finding["severity"] = "warning";
  document_["findings"].push_back(std::move(finding));
}

bool Report::print() {
  json report = document();
  const bool healthy = !has_errors(report);
  report["healthy"] = healthy;
  report["advice"] = advice_of(report);
  const auto records = records_of(report, std::chrono::system_clock::now());
  bool written = true;
  if (!options_.history.empty()) {
    written = succeeds([&] { report["history"] = history_with(read_history(options_.history), records); });
  }
  const std::string text = options_.json ? json_text(report, 2)
                           : healthy     ? text_of(report) + "\nall is well"
                                         : text_of(report) + "\nsomething is wrong: see above";
  written = succeeds([&] { write_standard_output(text + "\n"); }) && written;
  const bool saved = options_.save.empty() || succeeds([&] { write_file(options_.save, json_text(report, 2) + "\n"); });
  if (!options_.history.empty()) written = succeeds([&] { append_history(options_.history, records); }) && written;
  return healthy && saved && written;
}

}  // namespace mn::selftest
