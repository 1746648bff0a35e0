/// The self test's report, to which each test adds its result. If a test hangs, the timer's thread prints it.
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

/// The self test's report. Any thread may call its members.
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
  /// Adds `finding`, which has the form of the findings of mnlaunch's checks. If --skip names the finding's check, the
  /// finding is dropped; if --warn names the check, the finding becomes a warning.
  void add_finding(nlohmann::json finding);
  /// Records the failure of `test`. The cause lies on `hosts`; `advice` says what to do about the hosts.
  void blame(const std::string& test, const std::vector<std::string>& hosts, std::string_view advice) {
    const std::lock_guard lock(mutex_);
    document_["blamed"].push_back({{"test", test}, {"hosts", hosts}, {"advice", advice}});
  }
  /// Records a number, for example a bandwidth, from the test of one host.
  void set_figure(const std::string& host, const std::string& name, double figure) {
    const std::lock_guard lock(mutex_);
    document_["figures"][host][name] = figure;
  }
  [[nodiscard]] nlohmann::json document() const {
    const std::lock_guard lock(mutex_);
    return document_;
  }
  /// The exit status with which this process will end. kNotOut until all tests have run and the report is printed.
  std::atomic<int> status = kNotOut;
  /// Prints the report, saves it, and appends the hosts' records to the history. Returns true if no check and no test
  /// failed, and all files were written.
  bool print();

 private:
  SelfTestOptions options_;
  mutable std::mutex mutex_;
  nlohmann::json document_;
};

}  // namespace mn::selftest
