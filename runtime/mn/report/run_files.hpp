/// Reads the files that a run wrote into its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/json.hpp>

namespace mn::report {

struct Run {
  std::string name;                            ///< name of the folder
  std::vector<nlohmann::json> log;             ///< OUT/log
  std::map<std::string, std::string> options;  ///< config.ini
  std::map<std::string, std::string> changed;  ///< defaults of the options with other values
  std::vector<std::string> command;            ///< command line of the last start; empty without run.jsonl
  std::vector<std::string> hosts;              ///< by rank
  std::string device;
  std::optional<double> started;  ///< time of the last start, in seconds since 1970; no value without run.jsonl
  std::int64_t resumes = 0;
  bool ended = false;
  std::string why;                            ///< reason of the end
  std::map<std::int64_t, double> epochs;      ///< epoch by iteration, from the reports with an epoch
  std::vector<std::filesystem::path> images;  ///< OUT/images/*.png and *.jpg, by name
  std::vector<std::string> warnings;          ///< warnings of all ranks; a repeated text appears once
  std::vector<nlohmann::json> times;          ///< report lines of run.jsonl, without lines that a resume has replaced
};

/// Throws DataError with the file's name if the log is missing or damaged, or if run.jsonl is damaged before the last
/// line.
[[nodiscard]] Run read_run(const std::filesystem::path& out);

/// The names of the log's numbers, except epoch, iteration and elapsed_time.
[[nodiscard]] std::vector<std::string> metrics_of(const Run& run);

/// The epoch of a log entry, with its fraction; no value if run.jsonl lacks the epoch.
[[nodiscard]] std::optional<double> epoch_of(const Run& run, const nlohmann::json& entry);

/// True if some report has the time of this part of a step, such as "data_s".
[[nodiscard]] bool has_time(const Run& run, const std::string& part);

/// Findings for the user, one sentence each.
[[nodiscard]] std::vector<std::string> findings_of(const Run& run);

}  // namespace mn::report
