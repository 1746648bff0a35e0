/// The self test's report while it grows: when a test hangs, the timer's thread prints the results so far.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <mn/core/json.hpp>

namespace mn::selftest {

struct SelfTestOptions {
  bool json = false;
  std::string save;     ///< file for the report; empty: none
  std::string against;  ///< earlier report to compare with; empty: none
  std::string history;  ///< file with a line for each host and run; empty: none
};

/// Thread-safe.
class Report {
 public:
  explicit Report(SelfTestOptions options);
  void take(const nlohmann::json& part);
  void set(const std::string& test, const nlohmann::json& result);
  /// Adds a finding in the form of mnlaunch's checks, unless --skip names it; --warn makes it a warning.
  void add_finding(nlohmann::json finding);
  /// Records a failed test whose cause lies on `hosts`.
  void blame(const std::string& test, const std::vector<std::string>& hosts, std::string_view advice);
  /// Records a figure of one host.
  void set_figure(const std::string& host, const std::string& name, double figure);
  [[nodiscard]] nlohmann::json document() const;
  /// Exit status of this process once the report is out; no value before.
  [[nodiscard]] std::optional<int> status() const;
  void set_status(int status);
  /// Prints and saves the report, and adds it to the history. True if all is well and the files were written.
  bool print();

 private:
  SelfTestOptions options_;
  mutable std::mutex mutex_;
  nlohmann::json document_;
  std::optional<int> status_;
};

/// A thread that calls `on_late` once, with the name of the first part that takes longer than `patience`. A part lasts
/// until the next part begins, the last until the process ends.
class PartTimer {
 public:
  PartTimer(std::chrono::milliseconds patience, std::function<void(const std::string& part)> on_late);
  ~PartTimer();
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;

  void begin(const std::string& part);

 private:
  using Clock = std::chrono::steady_clock;

  void watch();

  std::chrono::milliseconds patience_;
  std::function<void(const std::string&)> on_late_;
  std::mutex mutex_;
  std::string part_ = "the start";
  Clock::time_point end_;
  bool stop_ = false;
  std::thread thread_;  // last: uses all other members
};

}  // namespace mn::selftest
