/// What --doctor found on each host over time: a file of JSON lines, one for each host and run.
///
/// 1. A run's lines are appended with one write(2) to a file opened with O_APPEND, under a lock: runs that end at once
///    do not mix their lines on a local file system. NFS does not promise that.
/// 2. A line that is not a record, such as one that a full disk cut off, is skipped and named.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::selftest {

struct History {
  /// By host, the newest runs in the order of the file: of each whether it found something that speaks against the
  /// host, and what.
  std::map<std::string, std::vector<std::vector<std::string>>> found;
  std::vector<std::size_t> damaged;  ///< numbers of lines, from 1
};

/// One for each host of the placement, and any other that a test names: time (UTC), host, verdict (failed, warned,
/// well), findings and failed tests that name the host, advice, figures. Pure.
[[nodiscard]] std::vector<nlohmann::json> records_of(const nlohmann::json& report,
                                                     std::chrono::system_clock::time_point now);

/// Empty where there is no such file. Throws Error.
[[nodiscard]] History read_history(const std::string& file);

/// For the report: who fails often, with this run's `records`, and which lines are damaged. Pure.
[[nodiscard]] nlohmann::json history_with(History history, const std::vector<nlohmann::json>& records);

/// Throws Error.
void append_history(const std::string& file, const std::vector<nlohmann::json>& records);

}  // namespace mn::selftest
