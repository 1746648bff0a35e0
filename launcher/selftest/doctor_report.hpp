/// The self test's report, to which each test adds its results. If a test hangs, the timer's thread prints the results
/// so far.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/json.hpp>

namespace mn::selftest {

struct SelfTestOptions {
  bool json = false;
  std::string save;     ///< file for the report; empty: none
  std::string against;  ///< earlier report to compare with; empty: none
  std::string history;  ///< file with a line for each host and run; empty: none
};

/// The self test's report. All members may be called on any thread.
class Report {
 public:
  static constexpr int kNotOut = -1;

  explicit Report(SelfTestOptions options);
  void take(const nlohmann::json& part) {
    const std::lock_guard lock(mutex_);
    document_.update(part);
  }
  void set(const std::string& test, const nlohmann::json& result) {
    const std::lock_guard lock(mutex_);
    document_["self_test"][test] = result;
  }
  /// Adds a finding in the form of mnlaunch's checks, unless --skip names the check. If --warn names the check, the
  /// finding is a warning.
  void add_finding(nlohmann::json finding);
  /// Records a failed test whose cause lies on `hosts`.
  void blame(const std::string& test, const std::vector<std::string>& hosts, std::string_view advice) {
    const std::lock_guard lock(mutex_);
    document_["blamed"].push_back({{"test", test}, {"hosts", hosts}, {"advice", advice}});
  }
  /// Records a figure that a test has measured on one host.
  void set_figure(const std::string& host, const std::string& name, double figure) {
    const std::lock_guard lock(mutex_);
    document_["figures"][host][name] = figure;
  }
  [[nodiscard]] nlohmann::json document() const {
    const std::lock_guard lock(mutex_);
    return document_;
  }
  /// The exit status of this process once the report is printed; kNotOut before that.
  std::atomic<int> status = kNotOut;
  /// Prints and saves the report, and appends its records to the history. Returns true if no check or test failed and
  /// all files were written.
  bool print();

 private:
  SelfTestOptions options_;
  mutable std::mutex mutex_;
  nlohmann::json document_;
};

}  // namespace mn::selftest
