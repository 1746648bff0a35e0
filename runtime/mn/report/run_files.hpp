/// What a run has written into its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <mn/core/json.hpp>

namespace mn::report {

struct Run {
  std::string name;                            ///< the folder's
  std::vector<nlohmann::json> log;             ///< OUT/log
  std::map<std::string, std::string> options;  ///< config.ini
  std::vector<std::string> command;            ///< of the last start; empty: there is no run.jsonl
  std::vector<std::string> hosts;              ///< by rank
  std::string device;
  std::int64_t resumes = 0;
  bool ended = false;
  std::vector<std::string> warnings;  ///< of all ranks, each once
  std::vector<nlohmann::json> times;  ///< report lines of run.jsonl, without those that a resume has replaced
};

/// Throws DataError that names the file if the log is absent or damaged, or run.jsonl is damaged before its last line.
[[nodiscard]] Run read_run(const std::filesystem::path& out);

/// The names of the log's numbers, which curves show: without epoch, iteration and elapsed_time.
[[nodiscard]] std::vector<std::string> metrics_of(const Run& run);

/// What is worth a look, a sentence each.
[[nodiscard]] std::vector<std::string> findings_of(const Run& run);

}  // namespace mn::report
