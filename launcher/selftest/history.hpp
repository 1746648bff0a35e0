/// What --doctor has found on each host over time: a file of JSON lines. Each run appends a line for each host.
///
/// 1. A run opens the file with O_APPEND, locks it, and appends all lines with a single write(2). Lines of concurrent
///    runs therefore do not mix on a local file system. NFS does not promise that.
/// 2. A damaged line, for example cut off by a full disk, is skipped, and the report gives its number.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::selftest {

struct History {
  /// By host: the names of the findings in each of its newest runs, oldest run first.
  std::map<std::string, std::vector<std::vector<std::string>>> found;
  std::vector<std::size_t> damaged;  ///< numbers of damaged lines, from 1
};

/// Makes a record for each host in the report: time (UTC), name, verdict (failed, warned or well), findings and failed
/// tests, advice, and measured figures. Pure function.
[[nodiscard]] std::vector<nlohmann::json> records_of(const nlohmann::json& report,
                                                     std::chrono::system_clock::time_point now);

/// Empty if the file does not exist. Throws Error.
[[nodiscard]] History read_history(const std::string& file);

/// Makes the report's part about damaged lines, and about hosts on which several runs have found something. `records`
/// count as the newest run. Pure function.
[[nodiscard]] nlohmann::json history_with(History history, const std::vector<nlohmann::json>& records);

void append_history(const std::string& file, const std::vector<nlohmann::json>& records);

}  // namespace mn::selftest
