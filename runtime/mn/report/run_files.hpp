/// Reads the files that a run has written into its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <mn/core/json.hpp>

namespace mn::report {

/// The first line of a config.ini with settings that are no options of a command line.
inline constexpr const char* kSettingsHeader = "# settings of the program";

/// How many seconds rank 0 spent on validation and checkpoints, outside of steps, between two lines of run.jsonl.
struct Pauses {
  std::int64_t iteration = 0;
  double validation_s = 0;
  double checkpoint_s = 0;
};

/// What "run" in the start line of run.jsonl says about a run. 0 and empty texts mean that a fact is unknown.
struct Facts {
  std::int64_t parameters = 0;
  std::int64_t samples = 0;                 ///< training samples, over all ranks
  std::int64_t global_batch = 0;            ///< samples of an update, over all ranks
  std::int64_t epochs = 0;                  ///< after which training ends
  std::int64_t iterations = 0;              ///< after which training ends
  std::string unit = "samples";             ///< "images", "tokens"
  double units_per_sample = 1;              ///< tokens of a sample
  std::string device;                       ///< model of the device
  std::string mn, torch;                    ///< versions of mn and torch
  std::map<std::string, std::string> used;  ///< values that the run used for options such as "auto"
};

struct Run {
  std::filesystem::path folder;
  std::string name;                            ///< name of the folder
  std::vector<nlohmann::json> log;             ///< OUT/log; empty before the first report
  std::map<std::string, std::string> options;  ///< config.ini; several values of an option in one text
  std::map<std::string, std::string> changed;  ///< defaults of the options with other values
  std::set<std::string> idle;                  ///< options without an effect in this run
  bool has_options = false;                    ///< whether config.ini has options of a command line
  std::vector<std::string> command;            ///< command line of the last start; empty without run.jsonl
  std::vector<std::string> hosts;              ///< host of each rank
  std::string device;                          ///< "CPU" or "GPU"
  Facts facts;                                 ///< facts of the last start
  std::optional<double> started;    ///< time of the last start, in seconds since 1970; no value without run.jsonl
  std::optional<double> last_time;  ///< time of the newest line of run.jsonl
  double longest_pause_s = 0;       ///< longest time between two lines of run.jsonl, except before a resume
  std::optional<double> total_s;    ///< seconds of the whole training, if it has ended
  std::int64_t resumes = 0;
  bool ended = false;
  std::string why;                        ///< reason of the end
  std::string error;                      ///< reason of a bad end; empty: none, or unknown
  std::map<std::int64_t, double> epochs;  ///< epoch by iteration, from the reports with an epoch
  std::vector<std::string> warnings;      ///< warnings of all ranks; a repeated text appears once
  /// The report lines of run.jsonl that have times. Lines that a resumed run has replaced are left out. "steps" in a
  /// line is the number of iterations since the line before.
  std::vector<nlohmann::json> times;
  std::vector<Pauses> pauses;  ///< pauses of all lines, except lines that a resume has replaced
};

/// Reads the files in the folder `out`. If both log and run.jsonl are missing, if the log is damaged, or if a complete
/// line of run.jsonl is damaged, throws a DataError that names the file. Before the first report a run has no log.
[[nodiscard]] Run read_run(const std::filesystem::path& out);

/// The names of all numbers in the log, except epoch, iteration and elapsed_time.
[[nodiscard]] std::vector<std::string> metrics_of(const Run& run);

/// The epoch of a log entry, with its fraction. No value if run.jsonl does not have the epoch.
[[nodiscard]] std::optional<double> epoch_of(const Run& run, const nlohmann::json& entry);

/// In a report line, times such as "data_s" have a value for each rank. Returns the sum of one of them over the ranks.
[[nodiscard]] double sum_of(const nlohmann::json& line, const std::string& part);

/// Seconds of training so far, by the end of the run or else by the newest entry of the log; 0 if there is none.
[[nodiscard]] double elapsed_s(const Run& run);

/// The name of the program, for instance "mnist". Empty if there is no run.jsonl.
[[nodiscard]] std::string job_of(const Run& run);

/// How to change a run: "--NAME" if the program has this option, otherwise by `call`.
[[nodiscard]] std::string advised(const Run& run, const std::string& option, const std::string& call);

/// The value that the run has used for an option. Empty if the option is unknown.
[[nodiscard]] std::string used_value(const Run& run, const std::string& option);

}  // namespace mn::report
