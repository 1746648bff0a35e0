/// The self test's report while it grows: the timer's thread prints what there is when a test hangs.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/json.hpp>

namespace mn::selftest {

struct SelfTestOptions {
  bool json = false;
  std::string save;     ///< file for the report; empty: none
  std::string against;  ///< an earlier report; empty: none
  std::string history;  ///< file with a line for each host and run; empty: none
};

/// Any thread may call anything.
class Report {
 public:
  explicit Report(SelfTestOptions options);
  void take(const nlohmann::json& part);
  void set(const std::string& test, const nlohmann::json& result);
  /// A finding as those of mnlaunch's checks. --skip and --warn of its name count.
  void add_finding(nlohmann::json finding);
  /// A failed test whose cause lies on `hosts`.
  void blame(const std::string& test, const std::vector<std::string>& hosts, std::string_view advice);
  /// A figure of one host.
  void set_figure(const std::string& host, const std::string& name, double figure);
  [[nodiscard]] nlohmann::json document() const;
  /// Exit status of this process once the report is out; no value before.
  [[nodiscard]] std::optional<int> status() const;
  void set_status(int status);
  /// Prints, saves and adds to the history. Returns whether all is well, and the files were written.
  bool print();

 private:
  SelfTestOptions options_;
  mutable std::mutex mutex_;
  nlohmann::json document_;
  std::optional<int> status_;
};

}  // namespace mn::selftest
