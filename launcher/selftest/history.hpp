/// Keeps the findings of --doctor on each host over time: a file of JSON lines, one for each host and run.
///
/// 1. A run appends its lines with one write(2) to a file opened with O_APPEND, under a lock: on a local file system,
///    lines of concurrent runs do not mix. NFS does not promise that.
/// 2. A line that is not a record, for example cut off by a full disk, is skipped, and the report gives its number.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace mn::selftest {

struct History {
  /// For each host, an entry for each of its newest runs, in the order of the file. An entry lists the names of the
  /// run's findings against the host; the list may be empty.
  std::map<std::string, std::vector<std::vector<std::string>>> found;
  std::vector<std::size_t> damaged;  ///< numbers of damaged lines, from 1
};

/// Makes a record for each host of the placement, and for each host that a test blames. A record has the time (UTC),
/// the host, a verdict (failed, warned, well), the host's findings and failed tests, advice, and figures. Pure
/// function.
[[nodiscard]] std::vector<nlohmann::json> records_of(const nlohmann::json& report,
                                                     std::chrono::system_clock::time_point now);

/// Reads the history; empty if the file does not exist. Throws Error.
[[nodiscard]] History read_history(const std::string& file);

/// Makes the report's part about the history: the hosts that fail often, and the numbers of damaged lines. `records`,
/// the records of this run, count, too. Pure function.
[[nodiscard]] nlohmann::json history_with(History history, const std::vector<nlohmann::json>& records);

/// Appends the records to the file. Throws Error.
void append_history(const std::string& file, const std::vector<nlohmann::json>& records);

}  // namespace mn::selftest
