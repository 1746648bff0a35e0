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

/// The first line of a config.ini whose settings are no command-line options.
inline constexpr const char* kSettingsHeader = "# settings of the program";

/// How many seconds rank 0 spent on validation and on checkpoints between two lines of run.jsonl.
struct Pauses {
  std::int64_t iteration = 0;
  double validation_s = 0;
  double checkpoint_s = 0;
};

/// The object "run" of the start line in run.jsonl. A fact that is 0 or empty is unknown.
struct Facts {
  std::int64_t parameters = 0;
  std::int64_t samples = 0;                 ///< training samples, over all ranks
  std::int64_t global_batch = 0;            ///< samples in an update, over all ranks
  std::int64_t epochs = 0;                  ///< epochs after which training ends
  std::int64_t iterations = 0;              ///< iterations after which training ends
  std::string unit = "samples";             ///< "images", "tokens"
  double units_per_sample = 1;              ///< units in a sample, for example tokens
  std::string device;                       ///< model of the device
  std::string mn, torch;                    ///< versions of mn and torch
  std::map<std::string, std::string> used;  ///< values that the run used for options such as "auto"
};

struct Run {
  std::filesystem::path folder;
  std::string name;                            ///< name of the run's folder
  std::vector<nlohmann::json> log;             ///< entries of OUT/log; empty before the first report
  std::map<std::string, std::string> options;  ///< from config.ini; if an option has several values, in one text
  std::map<std::string, std::string> changed;  ///< default values of the options that have other values
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
  std::string error;                      ///< reason of a bad end; empty: no bad end, or unknown
  std::map<std::int64_t, double> epochs;  ///< epoch by iteration, from the reports with an epoch
  std::vector<std::string> warnings;      ///< warnings of all ranks; a repeated text appears once
  /// The report lines of run.jsonl that have times. Lines that a resumed run has replaced are left out. In each line,
  /// "steps" is the number of iterations since the previous line.
  std::vector<nlohmann::json> times;
  std::vector<Pauses> pauses;  ///< pauses of all lines, except lines that a resume has replaced
};

/// Reads the files in the folder `out`. Before the first report, a run has no log. Throws a DataError that names the
/// file if both log and run.jsonl are missing, if the log is damaged, or if a complete line of run.jsonl is damaged.
[[nodiscard]] Run read_run(const std::filesystem::path& out);

/// Returns the names of all numbers in the log, except epoch, iteration and elapsed_time.
[[nodiscard]] std::vector<std::string> metrics_of(const Run& run);

/// Returns the epoch of a log entry, with its fraction. No value if run.jsonl does not have this epoch.
[[nodiscard]] std::optional<double> epoch_of(const Run& run, const nlohmann::json& entry);

/// Returns the sum of the list, with a time for each rank, that a report line has under the name `part`.
[[nodiscard]] double sum_of(const nlohmann::json& line, const std::string& part);

/// Returns the seconds of training so far, from the end line or the newest entry of the log; 0 without both.
[[nodiscard]] double elapsed_s(const Run& run);

/// Returns the name of the program, for instance "mnist". Empty if there is no run.jsonl.
[[nodiscard]] std::string job_of(const Run& run);

/// Returns "--NAME" if the program has this option, otherwise `call`, the name of a class or function.
[[nodiscard]] std::string advised(const Run& run, const std::string& option, const std::string& call);

/// Returns the value that the run has used for an option. Empty if the option is unknown.
[[nodiscard]] std::string used_value(const Run& run, const std::string& option);

}  // namespace mn::report
