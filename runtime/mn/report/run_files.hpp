/// What a run has written into its folder.
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
  std::string name;                            ///< the folder's
  std::vector<nlohmann::json> log;             ///< OUT/log
  std::map<std::string, std::string> options;  ///< config.ini
  std::map<std::string, std::string> changed;  ///< the defaults of those options that have other values
  std::vector<std::string> command;            ///< command line of the last start; empty without run.jsonl
  std::vector<std::string> hosts;              ///< by rank
  std::string device;
  std::optional<double> started;  ///< the last start, in seconds since 1970; no value without run.jsonl
  std::int64_t resumes = 0;
  bool ended = false;
  std::string why;                            ///< it has ended
  std::map<std::int64_t, double> epochs;      ///< by iteration, of the reports that say so
  std::vector<std::filesystem::path> images;  ///< OUT/images/*.png and *.jpg, by name
  std::vector<std::string> warnings;          ///< warnings of all ranks, each once
  std::vector<nlohmann::json> times;          ///< report lines of run.jsonl, without those that a resume has replaced
};

/// Throws DataError that names the file if the log is absent or damaged, or run.jsonl is damaged before its last line.
[[nodiscard]] Run read_run(const std::filesystem::path& out);

/// The names of the log's numbers, which curves show: without epoch, iteration and elapsed_time.
[[nodiscard]] std::vector<std::string> metrics_of(const Run& run);

/// The epoch of an entry of the log, with its fraction; no value if run.jsonl does not have it.
[[nodiscard]] std::optional<double> epoch_of(const Run& run, const nlohmann::json& entry);

/// Whether any report says that a rank spent time on that part of a step ("data_s").
[[nodiscard]] bool has_time(const Run& run, const std::string& part);

/// What is worth a look, a sentence each.
[[nodiscard]] std::vector<std::string> findings_of(const Run& run);

}  // namespace mn::report
