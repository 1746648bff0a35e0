/// The report of mnlaunch --doctor.
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

/// The self test's report: each test adds a result. Any thread may call its members. If a test hangs, the timer's
/// thread prints the report.
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
  /// Adds `finding`, which has the form of findings of mnlaunch's checks. --skip and --warn apply: a finding is
  /// dropped, or becomes a warning.
  void add_finding(nlohmann::json finding);
  /// Records the failure of `test`, caused by `hosts`. `advice` says what to do about the hosts.
  void blame(const std::string& test, const std::vector<std::string>& hosts, std::string_view advice) {
    const std::lock_guard lock(mutex_);
    document_["blamed"].push_back({{"test", test}, {"hosts", hosts}, {"advice", advice}});
  }
  /// Records a measured number, for example a bandwidth, for one host.
  void set_figure(const std::string& host, const std::string& name, double figure) {
    const std::lock_guard lock(mutex_);
    document_["figures"][host][name] = figure;
  }
  [[nodiscard]] nlohmann::json document() const {
    const std::lock_guard lock(mutex_);
    return document_;
  }
  /// The exit status of this process; kNotOut until all tests have run and the report is printed.
  std::atomic<int> status = kNotOut;
  /// Prints the report, saves it, and appends the hosts' records to the history. True if no check and no test failed,
  /// and all files were written.
  bool print();

 private:
  SelfTestOptions options_;
  mutable std::mutex mutex_;
  nlohmann::json document_;
};

}  // namespace mn::selftest
